package shard

import "time"

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
	// Type chooses the handler, see ByType. A queue with one handler may use it for something else
	// by which it finds jobs (Queue.Edit).
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
	// Report, if not empty, is what Queue.ReportsOf tells of the job until a result
	// brings another. Its first letter is the state, see StateQueued. Such a job has
	// an ID of NewID's form.
	Report string
	// Guard names a companion record in this slot (SetGuards); a claim returns
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
	// NotBefore, unless it is zero, is the time by Redis' clock before which the job does not start, and from
	// which its age and the life of its report count. A time that is over has no effect.
	NotBefore time.Time
	// Failures are attempts that were used up before it was enqueued.
	Failures int
	// Note is why a named job is delayed, for Find: see Result.
	Note string
}

// Enqueued answers for one job. New is false when the id, or the unique id,
// was there already: then ID is the id of the job that exists.
type Enqueued struct {
	ID  string
	New bool
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

// Fact is one thing that happened, for the readers of facts (store/facts).
type Fact struct {
	// Lane is the lane of its key (Queue.Route). In the queue whose shards have the lanes it is told at once if it is the lane of
	// its job's shard. Otherwise a relay moves it.
	Lane int
	// Type is "" for an event that may be over: the relay finds out.
	Type, Key string
	Data      []byte // JSON
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
	// Continue puts the job, with Result.Payload, at the end of the queue; its
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
	// "failed" for Dead (also by max_attempts, or by max_age if the job has no Claimed.Aged).
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
	// Least is how long the job waits at least after Retry or Defer, if the backoff is shorter. It may
	// be longer than RetryMax. A Delay replaces both.
	Least  time.Duration
	Parked string
	// Note is what Find tells of a named job: after Done, behind the letter of its tombstone; after Retry and Defer,
	// while it waits, and followed by the time in ms until which it does. Done jobs without a name leave their notes
	// together under the name of their group, or without a group each under its own, for Notes.
	Note string
	// Failures says, after Done, which work of the job failed, for Failures of the queue: lines of JSON objects. They
	// are kept with the group, or without one under the job's id. A shard keeps the first 200 of a group.
	Failures string
	// Facts are told if the result is recorded and the job is not dead.
	Facts []Fact
	// Reason and Err tell people why (Dead, Retry, Defer).
	Reason string
	Err    string
	// Untouched says that nothing of the job was begun (Defer, Release, Continue): the next claim is
	// the First, if this one was.
	Untouched bool
}
