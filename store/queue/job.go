package queue

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"time"

	"fanfare/store/queue/shard"
)

// The limits of a job. Sizes are bytes.
const (
	MaxPayload = 64 << 10 // Payload of one job
	MaxName    = 256      // ID, Type, Key, Unique, Group, Guard
	MaxShards  = 256      // shards of a queue
)

// Options configure a Queue. Every field but Name may stay zero.
type Options struct {
	// Name of the queue, part of every key: events, notifications, jobs. Without its last
	// s it is what a dead letter of the queue is called.
	Name string
	// Shards of the queue, fixed at its first start; default 8, at most 256.
	Shards int
	// Serve lists the shards that Run works on; nil: all.
	Serve []int
	// Lease is how long the jobs of a process stay with it when it shows no sign of
	// life; default 30 s. It is renewed at a quarter of that.
	Lease time.Duration
	// Retention is how long the tombstone of an ended job stays (default 1 h),
	// GroupRetention how long a group's record does after its last change (default
	// 24 h), and ReportRetention a job's report (default GroupRetention).
	Retention, GroupRetention, ReportRetention time.Duration
	// MaxAge ends a job that only ever deferred; default 24 h, negative: never.
	MaxAge time.Duration
	// RetryBase and RetryMax bound the backoff with full jitter; defaults
	// 500 ms and 5 min.
	RetryBase, RetryMax time.Duration
	// MaxAttempts is how often a job may fail before it is dead; default 8.
	MaxAttempts int
	// Batch is how many jobs one claim takes (default 100), InFlight how many
	// unfinished ones a process holds (default 1000).
	Batch, InFlight int
	// Room, when set, is how many more jobs the handler has use for now. A call claims at
	// most that many, several calls at once each that many; other jobs stay for processes
	// that have room. It must be quick.
	Room func() int
	// ParkedBytes is what parked jobs may take of Redis, those of all shards together, before
	// MayPark says no; default 30 % of its maxmemory, without which there is no limit.
	ParkedBytes int64
	// Drain is how long Run waits for unfinished jobs when it is stopped, before
	// it hands them back; default 0: handlers are told at once.
	Drain time.Duration
	// Show makes JSON for people of a dead letter's group and payload; default: the
	// payload, which is JSON itself or else becomes a string.
	Show func(group string, payload []byte) json.RawMessage
	// OnEmptied is told, perhaps several times, when keys are gone that this process had
	// worked with: Redis was emptied, or restarted without its data. Default: nobody.
	OnEmptied func()
	// Logger hears of recoveries, dead jobs and lost leases; default: nobody.
	Logger *slog.Logger
}

// These types are described where the engine of a shard uses them.
type (
	Job        = shard.Job        // one piece of work
	Enqueued   = shard.Enqueued   // the answer for one job
	Once       = shard.Once       // makes an enqueueing idempotent over many calls
	Claimed    = shard.Claimed    // a job that this process may work on until its lease ends
	Result     = shard.Result     // what a handler says about a job
	Outcome    = shard.Outcome    // how a claimed job goes on
	ParkedName = shard.ParkedName // says that jobs are parked under a name in a shard
)

// ClassOf makes the class of a job of an event of a type and, if it is a notification, its app.
func ClassOf(eventType, app string) string { return eventType + classSep + app }

// classSep separates the two, and a reason from both in the groups of dead letters.
const classSep = "\x1f"

// The outcomes, described there as well.
const (
	Done, Retry, Defer, Dead = shard.Done, shard.Retry, shard.Defer, shard.Dead
	Continue, Park, Release  = shard.Continue, shard.Park, shard.Release
)

// CountNew counts those that were not there before.
func CountNew(made []Enqueued) (n int) {
	for _, m := range made {
		if m.New {
			n++
		}
	}
	return n
}

// Handler works on claimed jobs. It must call Finish on each, now or later and
// from any goroutine; the queue bounds the unfinished ones by InFlight and
// renews their leases. ctx ends when Run is stopped and its Drain is over.
type Handler func(ctx context.Context, batch []*Claimed)

// Each makes a handler that calls f on every job in a goroutine of its own. f's
// context is the job's.
func Each(f func(ctx context.Context, c *Claimed) Result) Handler {
	return func(_ context.Context, batch []*Claimed) {
		for _, c := range batch {
			go func() { c.Finish(f(c.Context(), c)) }()
		}
	}
}

// ByType makes a handler of one function per type. A job of another type
// becomes a dead letter with reason unknown_type.
func ByType(types map[string]func(ctx context.Context, c *Claimed) Result) Handler {
	return Each(func(ctx context.Context, c *Claimed) Result {
		f, ok := types[c.Type]
		if !ok {
			return Result{Outcome: Dead, Reason: "unknown_type", Err: "no handler for type " + c.Type}
		}
		return f(ctx, c)
	})
}

var idText = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

var idEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// NewID makes a job id: 32 characters with the second, a part of it, the shard and 122
// random bits. Second and part, the first six characters, only decide which reports
// share a hash: those of jobs that arrive together.
func NewID(shard int, now time.Time) string {
	part := uint64(max(0, partAt(now)))
	var b [20]byte
	rand.Read(b[4:]) // never fails
	putHead(b[:], part<<10|uint64(shard&0xff)<<2|uint64(b[4]&3))
	return idText.EncodeToString(b[:])
}

const (
	partTime = time.Second / 32 // that ids tell apart
	partJobs = 64               // jobs of a batch that share a part
)

// putHead writes the first 40 bits of an id: 30 of the time, 8 of the shard, 2 by chance.
func putHead(b []byte, head uint64) {
	b[0], b[1], b[2], b[3], b[4] = byte(head>>32), byte(head>>24), byte(head>>16), byte(head>>8), byte(head)
}

// ParseID reads the shard of an id made by NewID.
func ParseID(id string) (n int, ok bool) {
	if len(id) != shard.IDLength {
		return 0, false
	}
	b, err := idText.DecodeString(id)
	if err != nil || len(b) != 20 {
		return 0, false
	}
	return int(b[3]<<6 | b[4]>>2), true
}

// MadeBefore tells whether NewID made an id up to a time, to a 32nd of a second. An id has only a
// part of its time: it is taken to have been made within half a year before or after.
func MadeBefore(id string, at time.Time) bool {
	part, ok := partOf(id, at)
	return ok && part <= partAt(at)
}

// partAt is the number of a time's 32nd of a second, counted from the begin of 2026.
func partAt(at time.Time) int64 { return int64(at.Sub(idEpoch) / partTime) }

// partOf is the number of the 32nd of a second in an id that NewID made. The id has its last 30 bits;
// of the numbers that end in them it is the one nearest to a time.
func partOf(id string, near time.Time) (part int64, ok bool) {
	b, err := idText.DecodeString(id)
	if err != nil || len(b) != 20 {
		return 0, false
	}
	const turn = 1 << 30 // parts after which ids begin again, 388 days
	from := partAt(near) - turn/2
	return from + (int64(binary.BigEndian.Uint64(b)>>34)-from)&(turn-1), true
}

// DeriveID makes the id of a batch's n-th job: of the shard of the first and of its time,
// of which many jobs take the next parts; a digest of at least 16 bytes is the rest. The
// same gives the same.
func DeriveID(first string, digest []byte, n int) string {
	b, err := idText.DecodeString(first)
	if err != nil || len(b) != 20 {
		return first
	}
	head := binary.BigEndian.Uint64(b) >> 24 &^ 3 // what is by chance goes
	putHead(b, head+uint64(n/partJobs)<<10)
	copy(b[5:], digest)
	return idText.EncodeToString(b)
}
