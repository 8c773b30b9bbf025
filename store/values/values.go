package values

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/wake"
)

// kindValues is in the keys of values.
const kindValues = "values"

// Values are the values. They may be used from any goroutine.
type Values struct {
	db      *redisdb.DB
	space   *space
	changes *wake.Line
}

// NewValues makes the Values. It does not connect.
func NewValues(db *redisdb.DB) *Values {
	return &Values{
		db: db, space: newSpace(db, kindValues, func(time.Time, []*call) {}),
		changes: wake.NewLine(db.Blocking()),
	}
}

// Put makes or replaces a value if the condition holds, for ttl, or for good if it is 0. Errors are
// CodeVersionMismatch with the present value and its version, CodeTooManyNames, and CodeOverloaded while Redis'
// memory is nearly full.
func (v *Values) Put(ctx context.Context, name string, content json.RawMessage, ttl time.Duration, m api.Match) (version int64, created bool, err error) {
	if err := v.db.Overloaded(); err != nil {
		return 0, false, err
	}
	lifetime := ""
	if ttl > 0 {
		lifetime = strconv.FormatInt(ttl.Milliseconds(), 10)
	}
	c := &call{what: "put", name: name, args: [3]any{redisdb.MatchText(m), lifetime, []byte(content)}}
	if err := v.space.change(ctx, c); err != nil {
		return 0, false, fmt.Errorf("put value %s: %w", name, err)
	}
	switch c.status {
	case done:
		number, isNew, _ := strings.Cut(c.rest, ",")
		version, err = strconv.ParseInt(number, 10, 64)
		return version, isNew == "1", err
	case noRoom:
		return 0, false, tooManyNames()
	}
	return 0, false, c.refusal()
}

// Delete removes a value if the condition holds. Without a condition, deleting one that is not there is no error.
// The error is CodeVersionMismatch as for Put.
func (v *Values) Delete(ctx context.Context, name string, m api.Match) error {
	c := &call{what: "delete", name: name, args: [3]any{redisdb.MatchText(m), "", ""}}
	if err := v.space.change(ctx, c); err != nil {
		return fmt.Errorf("delete value %s: %w", name, err)
	}
	if c.status == done {
		return nil
	}
	return c.refusal()
}

// refusal is the error of a call whose condition does not hold.
func (c *call) refusal() error {
	if c.status != mismatch {
		return c.unexpected()
	}
	present, err := parse(strings.Replace(c.rest, ",", ":", 1))
	if err != nil {
		return err
	}
	e := api.Errorf(api.CodeVersionMismatch, "the value is not the one that the condition asks for").With("version", present.Version)
	if present.Version != 0 {
		e = e.With("value", present.Value)
	}
	return e
}

// Get reads a value. The error is CodeNotFound if there is none.
func (v *Values) Get(ctx context.Context, name string) (*api.Value, error) {
	value, _, err := v.look(ctx, name)
	return found(value, err)
}

// recent is how old a look may be at the end of a wait. An older one is made again, because nobody was told of a change if the
// connection has become silent.
const recent = 2 * time.Second

// Wait reads a value once it is of another version than the given one, 0 for none, or when ctx ends, as it is then.
// It does not ask Redis again and again.
func (v *Values) Wait(ctx context.Context, name string, version int64) (*api.Value, error) {
	// The end of the wait must not end a look that is under way.
	value, left, err := v.look(context.WithoutCancel(ctx), name)
	if err != nil || value.Version != version {
		return found(value, err)
	}
	told := v.changes.Join(ctx, channel(name))
	defer v.changes.Leave(channel(name), told)
	for looked, over := time.Now(), false; value.Version == version && !over; {
		if over = wake.Await(ctx, told, left+time.Millisecond) != nil; over && time.Since(looked) < recent {
			break
		}
		looked = time.Now()
		if value, left, err = v.look(context.WithoutCancel(ctx), name); err != nil {
			return nil, err
		}
	}
	return found(value, nil)
}

// found turns a value that is not there into an error.
func found(value api.Value, err error) (*api.Value, error) {
	if err == nil && value.Version == 0 {
		err = api.Errorf(api.CodeNotFound, "there is no such value")
	}
	if err != nil {
		return nil, err
	}
	return &value, nil
}

const (
	// noEnd is what PTTL answers for a value without an end.
	noEnd time.Duration = -1
	// forGood is how long a value without an end lasts for who waits.
	forGood = 24 * time.Hour
)

// look reads a value, its version 0 if there is none, and how long it lasts.
func (v *Values) look(ctx context.Context, name string) (value api.Value, left time.Duration, err error) {
	of := keysFor(kindValues, name).content(name)
	text, ttl := redis.NewStringCmd(ctx, "get", of), redis.NewDurationCmd(ctx, time.Millisecond, "pttl", of)
	if err := v.db.Do(ctx, redisdb.Read, text, ttl); err != nil && !errors.Is(err, redis.Nil) {
		return value, 0, fmt.Errorf("read value %s: %w", name, err)
	}
	if errors.Is(text.Err(), redis.Nil) {
		return value, forGood, nil
	}
	left = max(ttl.Val(), 0) // it may have ended since it was read
	if ttl.Val() == noEnd {
		left = forGood
	}
	value, err = parse(text.Val())
	return value, left, err
}

// parse reads a version and a value.
func parse(text string) (api.Value, error) {
	version, content, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(version, 10, 64)
	return api.Value{Value: json.RawMessage(content), Version: n}, err
}
