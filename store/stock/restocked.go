package stock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Restocked is a change of stock with the name of its call, which comes from the idempotency
// key. When the call is repeated, its name shows that the change was made before.
type Restocked struct {
	Name string
	// Version is the version of the sale after the change.
	Version int64
	// Answer is the idempotency record, and ExpiresAt its end in milliseconds since the
	// Unix epoch, by Redis' clock.
	Answer    string
	ExpiresAt int64
}

// restockFields is how many fields a record has: digest and request in one, version, total,
// held, sold.
const restockFields = 5

// UnrecordedRestocks lists the changes of stock up to a version of the sale that are not on
// record. They are to be recorded in one transaction with the settings of that version.
func (x *outbox) UnrecordedRestocks(ctx context.Context, sale string, version int64) ([]Restocked, error) {
	cmd := redis.NewMapStringStringCmd(ctx, "hgetall", newPartition(sale, 0).restocks)
	owed, err := redisdb.Value(ctx, x.db, redisdb.Read, cmd)
	found := make([]Restocked, 0, len(owed))
	for name, text := range owed {
		expires, answer, _ := strings.Cut(text, " ")
		f := strings.Fields(answer)
		if len(f) != restockFields {
			return nil, fmt.Errorf("read restock %s of sale %s: %q", name, sale, text)
		}
		r := Restocked{Name: name, Answer: answer}
		r.ExpiresAt, _ = strconv.ParseInt(expires, 10, 64)
		r.Version, _ = strconv.ParseInt(f[1], 10, 64)
		if r.Version <= version {
			found = append(found, r)
		}
	}
	return found, err
}

// SettingsRecorded notes that a version, or a newer one, is on record, and with it changes of
// stock.
func (x *outbox) SettingsRecorded(ctx context.Context, sale string, version int64, restocks ...Restocked) error {
	first := newPartition(sale, 0)
	cmds := []redis.Cmder{x.scripts.raise.Cmd(ctx, []string{first.settings}, "recorded", version)}
	if len(restocks) > 0 {
		args := []any{"hdel", first.restocks}
		for _, r := range restocks {
			args = append(args, r.Name)
		}
		cmds = append(cmds, redis.NewIntCmd(ctx, args...))
	}
	return x.db.Do(ctx, redisdb.Write, cmds...)
}

// disowned is the run of a sale that was disowned.
const disowned = "?"

// Disown notes that SQL refused settings, and the changes of stock before them, because the sale
// was loaded by another Redis meanwhile. From then on calls fail with ErrStaleRun until the sale
// is loaded again, which takes all these changes back. A sale that was loaded or changed since
// the refused version stays as it is.
func (x *outbox) Disown(ctx context.Context, s Settings, restocks []Restocked) error {
	first := newPartition(s.ID, 0)
	keys := []string{first.settings, first.restocks}
	for _, r := range restocks {
		keys = append(keys, first.once(r.Name))
	}
	cmd := x.scripts.disown.Cmd(ctx, keys, x.o.RunID, s.Loading, s.Version)
	return x.db.Do(ctx, redisdb.Write, cmd)
}

// RestoreRestocks writes the idempotency records of changes of stock on record, where Redis
// lost them. It comes between Load and Open.
func (l *loader) RestoreRestocks(ctx context.Context, sale string, restocks []Restocked) error {
	first := newPartition(sale, 0)
	cmds := make([]redis.Cmder, len(restocks))
	for i, r := range restocks {
		cmds[i] = redis.NewStatusCmd(ctx, "set", first.once(r.Name), r.Answer, "pxat", r.ExpiresAt, "nx")
	}
	if err := l.db.Share(ctx, redisdb.Write, cmds...); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) { // Nil: Redis has it
			return err
		}
	}
	return nil
}
