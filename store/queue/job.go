package queue

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"time"
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

// Job is one piece of work.
type Job struct {
	// ID and Shard name the job. With ID "" the queue makes one and routes by
	// Key, else Unique, else at random. With an ID, Shard says where it is.
	// Enqueueing an id again has no effect, also a while after its end, unless it
	// is Fresh.
	ID    string
	Shard int
	// Fresh says that NewID made ID for this job just now, so that no other has
	// it: nothing needs to be looked up, nor remembered after its end.
	Fresh bool
	// Type chooses the handler, see ByType.
	Type string
	// Key is the conflict key: two jobs of one key never run at once.
	Key string
	// Unique is free only when no live job has it.
	Unique string
	// Group counts its jobs in this shard: `created` rises when the id is new,
	// the Result's Label at its end.
	Group string
	// Counts are added to the group's record when the job is new.
	Counts map[string]int64
	// Report, if not empty, is what Queue.Report tells of the job until a result
	// brings another. Its first letter is the state, see StateQueued. Such a job has
	// an ID of NewID's form.
	Report string
	// Guard names a companion record in this slot (SetGuard); a claim returns
	// its present value. A retried dead letter has none: it may be older than
	// any guard.
	Guard string
	// Payload is at most MaxPayload bytes.
	Payload []byte
	// Value goes with the job as long as it does not leave this process: if the call that
	// stored the job claims it too, the claimed job has the value, else nil. Only plain
	// jobs have one: those with nothing but an id, a payload and perhaps a report.
	Value any
	// Attachment is stored beside, kept till the job ends, and read item by item
	// with Queue.Attachment.
	Attachment []string
	// Delay keeps the job from starting, counted from its enqueueing.
	Delay time.Duration
	// Failures are attempts that were used up before it was enqueued.
	Failures int
}

// Enqueued answers for one job. New is false when the id, or the unique id,
// was there already: then ID is the one that is.
type Enqueued struct {
	ID  string
	New bool
}

// CountNew counts those that were not there before.
func CountNew(made []Enqueued) (n int) {
	for _, m := range made {
		if m.New {
			n++
		}
	}
	return n
}

// Once makes an enqueueing idempotent over many calls.
type Once struct {
	// Key is the caller's idempotency key with its scope; "": none.
	Key string
	// Body is a digest of the request; another one under the same key is
	// refused with idempotency_key_reused.
	Body [32]byte
	// Answer is stored and given to replays.
	Answer string
	// TTL of the record; default 24 h.
	TTL time.Duration
}

// Outcome is how a claimed job goes on.
type Outcome int

// The outcomes.
const (
	// Done ends the job.
	Done Outcome = iota
	// Retry is a failure of the job itself: counted, again after a backoff (or
	// Result.Delay), dead with reason max_attempts when it was the last attempt.
	Retry
	// Defer is not the job's fault: again after Result.Delay (or a backoff),
	// uncounted, dead with reason max_age when it is older than MaxAge.
	Defer
	// Dead gives the job up; it becomes a dead letter.
	Dead
	// Continue puts the job, with Result.Payload, behind what waits; its
	// attempts start again.
	Continue
	// Park moves the job, uncounted, to the parked stream Result.Parked, until
	// Unpark.
	Park
	// Release hands the job back at once, uncounted.
	Release
)

// Result is what a handler says about a job.
type Result struct {
	Outcome Outcome
	// Label is counted in the job's group at its end; default "done" for Done,
	// "failed" for Dead (also by max_attempts or max_age).
	Label string
	// Counts are added to the group, exactly once with the outcome.
	Counts map[string]int64
	// Report replaces the job's; "" keeps it. It stays for ReportTTL, at least
	// ReportRetention.
	Report    string
	ReportTTL time.Duration
	// Payload replaces the job's when it goes on; nil keeps it.
	Payload []byte
	Delay   time.Duration
	Parked  string
	// Reason and Err tell people why (Dead, Retry, Defer).
	Reason string
	Err    string
	// Untouched says that nothing of the job was begun (Defer, Release): the next claim is
	// the First, if this one was.
	Untouched bool
}

// Handler works on claimed jobs. It must call Finish on each, now or later and
// from any goroutine; the queue bounds the unfinished ones by InFlight and
// renews their leases. ctx ends when Run is stopped and its Drain is over.
type Handler func(ctx context.Context, batch []*Claimed)

var idText = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

var idEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// NewID makes a job id: 32 characters with the second, a part of it, the shard and 122
// random bits. Second and part, the first six characters, only decide which reports
// share a hash: those of jobs that arrive together.
func NewID(shard int, now time.Time) string {
	part := uint64(max(0, int64(now.Sub(idEpoch)))) / uint64(time.Second/idParts)
	var b [20]byte
	rand.Read(b[4:]) // never fails
	putHead(b[:], part<<10|uint64(shard&0xff)<<2|uint64(b[4]&3))
	return idText.EncodeToString(b[:])
}

const (
	idParts  = 32 // of a second are told apart
	partJobs = 64 // of a batch share a part
)

// putHead writes the first 40 bits of an id: 30 of the time, 8 of the shard, 2 by chance.
func putHead(b []byte, head uint64) {
	b[0], b[1], b[2], b[3], b[4] = byte(head>>32), byte(head>>24), byte(head>>16), byte(head>>8), byte(head)
}

// ParseID reads the shard of an id made by NewID.
func ParseID(id string) (shard int, ok bool) {
	if len(id) != newIDLength {
		return 0, false
	}
	b, err := idText.DecodeString(id)
	if err != nil || len(b) != 20 {
		return 0, false
	}
	return int(b[3]<<6 | b[4]>>2), true
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
