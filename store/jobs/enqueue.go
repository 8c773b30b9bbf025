package jobs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

var idText = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

const (
	idLength    = 26 // characters of an id within its queue
	defaultMost = 8  // attempts of a job
	// retryFull is when a caller may try a queue again that is full, or a new queue that found no place.
	retryFull = 10 * time.Second
)

// newID makes the id of the first job of a call, of the time, the number 0 and 64 random bits.
func newID(now time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	rand.Read(b[8:]) // never fails
	return idText.EncodeToString(b[:])
}

// nthID makes the id of the n-th job of a call from that of its first. The same gives the same, and the ids of a call are in order.
func nthID(first string, n int) string {
	b, err := idText.DecodeString(first)
	if n == 0 || err != nil {
		return first
	}
	sum := sha256.Sum256([]byte(first + strconv.Itoa(n)))
	binary.BigEndian.PutUint16(b[6:], uint16(n))
	copy(b[8:], sum[:])
	return idText.EncodeToString(b)
}

// Enqueue stores jobs in a queue, all of them or none. The requests have been validated. Errors are api.CodeQueueFull,
// api.CodeTooManyNames for one queue too many, api.CodeIdempotencyReused, a TooFarError, and
// api.CodeOverloaded while Redis' memory is nearly full. again says that the answer is from an earlier call with this
// Idempotency-Key (once.Key "": there is none).
func (s *Store) Enqueue(ctx context.Context, queue string, jobs []api.JobRequest, once api.Idempotency) (accepted []api.JobAccepted, again bool, err error) {
	if err := s.db.Overloaded(); err != nil {
		return nil, false, err
	}
	args, bytes := []any{queue, "0", "", api.IdempotencyTTL.Milliseconds(), ""}, 0
	if once.Key != "" {
		args[2], args[4] = once.Name(queue), once.Body[:]
	}
	first := newID(time.Now())
	for i := range jobs {
		kind, body := bodyOf(&jobs[i])
		args = append(args, nthID(first, i), kind, body)
		bytes += len(jobs[i].Payload)
	}
	c := &call{what: "enqueue", args: args}
	if err = s.do(ctx, queue, c, len(jobs), bytes); err == nil && c.status == absent {
		if err = s.roomForQueue(ctx); err == nil {
			c.args[1] = "1"
			err = s.do(ctx, queue, c, len(jobs), bytes)
		}
	}
	if err != nil {
		return nil, false, err
	}
	switch c.status {
	case done, replayed:
		return readAccepted(queue, c.rest, len(jobs)), c.status == replayed, nil
	case noRoom:
		e := api.Errorf(api.CodeQueueFull, "the queue %s has as many jobs as it may have, %d", queue, api.MaxJobs)
		e.RetryAfter = retryFull
		return nil, false, e
	case reused:
		return nil, false, api.IdempotencyReused()
	case tooFar:
		return nil, false, TooFarError{Index: int(parse(c.rest))}
	}
	return nil, false, c.unexpected()
}

// TooFarError says which job of a call is to run too far ahead of Redis' clock.
type TooFarError struct{ Index int }

func (e TooFarError) Error() string {
	return fmt.Sprintf("job %d is to run more than %d days ahead", e.Index, int(api.MaxJobDelay.Hours()/24))
}

// bodyOf is what lua/part_enqueue.lua gets of a request beside its id: its type and the rest of its text, or "" and a text that
// begins with its due time, if it is due later or has a conflict key or a unique name.
func bodyOf(r *api.JobRequest) (kind string, body []byte) {
	most := int64(defaultMost)
	if r.MaxAttempts != nil {
		most = *r.MaxAttempts
	}
	body = make([]byte, 0, len(r.Payload)+len(r.Type)+len(r.Key)+len(r.Unique)+len(r.Traceparent)+32)
	if r.RunAt != nil {
		body = strconv.AppendInt(body, r.RunAt.UnixMilli(), 10)
	}
	if body = append(body, fieldSep...); r.RunAt == nil && r.Key == "" && r.Unique == "" {
		kind = r.Type
	}
	for _, field := range []string{r.Type, r.Key, r.Unique} {
		body = append(append(body, field...), fieldSep...)
	}
	body = strconv.AppendInt(body, most, 10)
	if r.Traceparent != "" {
		body = append(append(body, fieldSep...), r.Traceparent...)
	}
	return kind, append(append(body, 0), r.Payload...)
}

// readAccepted reads what is on record of a call: the id of its first job, and the jobs that were there before.
func readAccepted(queue, text string, n int) []api.JobAccepted {
	parts := strings.Fields(text)
	all, old := make([]api.JobAccepted, n), false
	for i := range all {
		all[i].ID = idOf(queue, nthID(parts[0], i))
	}
	for _, part := range parts[1:] {
		at, id, _ := strings.Cut(part, "=")
		if i := int(parse(at)); i < n {
			all[i] = api.JobAccepted{ID: idOf(queue, id), New: &old}
		}
	}
	return all
}

// roomForQueue tells whether there may be another queue. Callers that ask at once may make a few more than there may be.
func (s *Store) roomForQueue(ctx context.Context) error {
	cmds := make([]redis.Cmder, groups)
	for n := range cmds {
		cmds[n] = redis.NewIntCmd(ctx, "zcard", s.registry(n))
	}
	if err := s.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return err
	}
	sum := int64(0)
	for _, cmd := range cmds {
		n, err := cmd.(*redis.IntCmd).Result()
		if err != nil {
			return fmt.Errorf("count queues of jobs: %w", err)
		}
		sum += n
	}
	if sum < api.MaxQueues {
		return nil
	}
	e := api.Errorf(api.CodeTooManyNames, "there are as many queues as there may be, %d", api.MaxQueues)
	e.RetryAfter = retryFull
	return e
}

// parse reads a number that a script wrote.
func parse(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
