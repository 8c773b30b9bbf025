package values

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// kindCounters is in the keys of counters.
const kindCounters = "counters"

// Counters are the counters. They may be used from any goroutine.
type Counters struct {
	db       *redisdb.DB
	space    *space
	refusals *refusals
}

// NewCounters makes the Counters. It does not connect.
func NewCounters(db *redisdb.DB) *Counters {
	c := &Counters{db: db, refusals: newRefusals()}
	c.space = newSpace(db, kindCounters, c.refusals.learn)
	return c
}

// Put makes a counter, or gives one that is there another number and other settings, as a whole. The request has been
// validated. Errors are CodeTooManyNames, and CodeOverloaded while Redis' memory is nearly full.
func (c *Counters) Put(ctx context.Context, name string, r *api.CounterRequest) (created bool, err error) {
	if err := c.db.Overloaded(); err != nil {
		return false, err
	}
	idle := ""
	if r.IdleMS != nil {
		idle = strconv.FormatInt(*r.IdleMS, 10)
	}
	one := &call{what: "set", name: name, args: [3]any{*r.Value, settingsText(r, idle), idle}}
	if err := c.space.change(ctx, one); err != nil {
		return false, fmt.Errorf("put counter %s: %w", name, err)
	}
	switch one.status {
	case done:
		return one.rest == "1", nil
	case noRoom:
		return false, tooManyNames()
	}
	return false, one.unexpected()
}

// Add adds to a counter. With saturate it stops at a bound. Errors are CodeNotFound, CodeBounds with the present value,
// CodeNotStarted, CodeEnded, CodeIdempotencyReused, and CodeOverloaded while Redis' memory is nearly full. An add
// without an Idempotency-Key may be refused from memory, which is at most 100 ms old.
func (c *Counters) Add(ctx context.Context, name string, delta int64, saturate bool, once api.Idempotency) (change *api.CounterChange, again bool, err error) {
	if err := c.db.Overloaded(); err != nil {
		return nil, false, err
	}
	one := &call{what: "add", name: name, args: [3]any{delta, "0", ""}}
	if saturate {
		one.args[1] = "1"
	}
	if once.Key != "" {
		one.record = once.Name(name)
		one.args[2] = once.Body[:]
	} else if err := c.refusals.find(name, delta, saturate); err != nil {
		return nil, false, err
	}
	if err := c.space.change(ctx, one); err != nil {
		return nil, false, fmt.Errorf("add to counter %s: %w", name, err)
	}
	if one.status == done || one.status == replayed {
		change, err = one.change()
		return change, one.status == replayed, err
	}
	return nil, false, one.refused()
}

// change reads what an add did.
func (c *call) change() (*api.CounterChange, error) {
	value, applied, _ := strings.Cut(c.rest, ",")
	n, err := strconv.ParseInt(value, 10, 64)
	by, wrong := strconv.ParseInt(applied, 10, 64)
	return &api.CounterChange{Value: n, Applied: by}, errors.Join(err, wrong)
}

// refused is the error of an add that changed nothing.
func (c *call) refused() error {
	switch c.status {
	case beyond:
		value, _, _ := strings.Cut(c.rest, ",")
		n, err := strconv.ParseInt(value, 10, 64)
		return cmp.Or[error](err, outOfBounds(n))
	case early:
		ms, err := strconv.ParseInt(c.rest, 10, 64)
		e := api.Errorf(api.CodeNotStarted, "the counter has not started")
		e.RetryAfter = time.Duration(ms) * time.Millisecond
		return cmp.Or[error](err, e)
	case over:
		return api.Errorf(api.CodeEnded, "the counter has ended")
	case reused:
		return api.IdempotencyReused()
	case absent:
		return noCounter()
	}
	return c.unexpected()
}

func outOfBounds(value int64) *api.Error {
	return api.Errorf(api.CodeBounds, "the counter would leave its bounds").With("value", value)
}

func noCounter() error { return api.Errorf(api.CodeNotFound, "there is no such counter") }

// Delete removes a counter. One that is not there is no error.
func (c *Counters) Delete(ctx context.Context, name string) error {
	one := &call{what: "remove", name: name, args: [3]any{"", "", ""}}
	if err := c.space.change(ctx, one); err != nil {
		return fmt.Errorf("delete counter %s: %w", name, err)
	}
	if one.status != done {
		return one.unexpected()
	}
	return nil
}

// Get reads a counter. The error is CodeNotFound if there is none.
func (c *Counters) Get(ctx context.Context, name string) (*api.Counter, error) {
	text, err := redisdb.Value(ctx, c.db, redisdb.Read, redis.NewStringCmd(ctx, "get", keysFor(kindCounters, name).content(name)))
	if errors.Is(err, redis.Nil) {
		return nil, noCounter()
	}
	if err != nil {
		return nil, fmt.Errorf("read counter %s: %w", name, err)
	}
	return parseCounter(text)
}

// settingsText writes all of a counter's record but its number.
func settingsText(r *api.CounterRequest, idle string) string {
	ms := func(t *api.Time) string {
		if t == nil {
			return ""
		}
		return strconv.FormatInt(t.UnixMilli(), 10)
	}
	least, most := r.Bounds()
	return fmt.Sprintf("%d:%d:%s:%s:%s:%s", least, most, ms(r.StartsAt), ms(r.EndsAt), idle, r.Local)
}

// parseCounter reads a counter's record.
func parseCounter(text string) (*api.Counter, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 7 {
		return nil, fmt.Errorf("%q is no counter", text)
	}
	var numbers [6]*int64
	for i, part := range parts[:6] {
		if part == "" {
			continue
		}
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no counter: %w", text, err)
		}
		numbers[i] = &n
	}
	at := func(ms *int64) *api.Time {
		if ms == nil {
			return nil
		}
		t := api.AtMillis(*ms)
		return &t
	}
	if *numbers[1] == -api.MaxNumber {
		numbers[1] = nil
	}
	if *numbers[2] == api.MaxNumber {
		numbers[2] = nil
	}
	return &api.Counter{
		Value: *numbers[0], Min: numbers[1], Max: numbers[2], StartsAt: at(numbers[3]), EndsAt: at(numbers[4]), IdleMS: numbers[5], Local: parts[6],
	}, nil
}
