package events

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/api/trace"
	"fanfare/store/queue"
)

// Accept accepts an event in one round trip to Redis and without SQL. There are three exceptions: an
// unknown type is read from the record, an event with ExpiresAt or SendAt needs Redis' clock, which is
// read every 10 s, and a live event gets its place among those of its object before, unless its key tells that it has
// one. When it returns nil the event can no longer be lost. replayed says that the
// result is from an earlier request with the same key. The caller must have checked the event with
// api.Validator.
func (s *Store) Accept(ctx context.Context, r *api.EventRequest, once api.Idempotency) (a *api.EventAccepted, replayed bool, err error) {
	return s.acceptOne(ctx, once, func(id string, now time.Time) (queue.Job, error) { return s.checkedJob(ctx, id, r, now) })
}

// Preview checks an event as Accept does, and shows what it would send. It stores nothing.
func (s *Store) Preview(ctx context.Context, r *api.EventRequest) (*api.EventPreview, error) {
	now := s.o.Now()
	job, err := s.checkedJob(ctx, queue.NewID(s.shardOfTheMoment(now), now), r, now)
	if err != nil {
		return nil, err
	}
	j := job.Value.(*Job)
	j.Push.Stamp(now.Unix())
	preview := j.Push.Preview(s.o.Delivers)
	for i := range preview.Payloads {
		if j.Audience.Channel != nil {
			preview.Payloads[i].Limit = api.MaxBroadcast
		}
	}
	return preview, nil
}

// acceptOne accepts one event, whose entry makeJob makes under the event's id.
func (s *Store) acceptOne(ctx context.Context, once api.Idempotency, makeJob func(id string, now time.Time) (queue.Job, error)) (a *api.EventAccepted, replayed bool, err error) {
	ids, replayed, err := s.accept(ctx, 1, once, func(_ int, id string, now time.Time) (queue.Job, error) { return makeJob(id, now) })
	if err != nil {
		return nil, false, err
	}
	return &api.EventAccepted{ID: ids[0]}, replayed, nil
}

// AcceptBatch accepts all events or none, in one shard and one step. One bad event refuses the
// whole batch, and the error names its index.
func (s *Store) AcceptBatch(ctx context.Context, r *api.EventBatchRequest, once api.Idempotency) (a *api.EventBatchAccepted, replayed bool, err error) {
	ids, replayed, err := s.accept(ctx, len(r.Events), once, func(i int, id string, now time.Time) (queue.Job, error) {
		job, err := s.checkedJob(ctx, id, &r.Events[i], now)
		if err != nil {
			err = prefixError(err, "events["+strconv.Itoa(i)+"]")
		}
		return job, err
	})
	if err != nil {
		return nil, false, err
	}
	a = &api.EventBatchAccepted{Items: make([]api.EventAccepted, len(ids))}
	for i, id := range ids {
		a.Items[i].ID = id
	}
	return a, replayed, nil
}

// accept stores n events; makeJob makes the entry of each. The stored result is the first id and the number of
// events; a replay derives all ids from these two.
func (s *Store) accept(ctx context.Context, n int, once api.Idempotency, makeJob func(i int, id string, now time.Time) (queue.Job, error)) (ids []string, replayed bool, err error) {
	if err := s.o.DB.Overloaded(); err != nil {
		return nil, false, err
	}
	now := s.o.Now()
	shard := s.shard(once, now)
	first := queue.NewID(shard, now)
	record := onceRecord(once, first, n)
	jobs := make([]queue.Job, n)
	for i := range jobs {
		if jobs[i], err = makeJob(i, nthID(first, i), now); err != nil {
			return s.replay(ctx, shard, record, err)
		}
		jobs[i].Fresh = true
	}
	if isLive(jobs) { // an event that was accepted before has its place
		if ids, found, err := s.answered(ctx, shard, record); found || err != nil {
			return ids, found, err
		}
		if err := s.order(ctx, jobs); err != nil {
			return nil, false, err
		}
	}
	replayed, stored, err := s.o.Queue.EnqueueOnce(ctx, record, jobs...)
	if err != nil {
		return nil, false, err
	}
	if replayed {
		ids, err = answeredIDs(stored)
		return ids, true, err
	}
	s.o.OnAccepted(len(jobs))
	return idsOf(first, n), false, nil
}

// replay handles a request that would be refused now, because the event has expired or its type was
// deleted, but that was accepted before with the same key.
func (s *Store) replay(ctx context.Context, shard int, record queue.Once, refusal error) ([]string, bool, error) {
	ids, found, err := s.answered(ctx, shard, record)
	if found || api.CodeOf(err) == api.CodeIdempotencyReused {
		return ids, found, err
	}
	return nil, false, refusal
}

// answered reads the ids with which an earlier request with the same key was answered.
func (s *Store) answered(ctx context.Context, shard int, record queue.Once) (ids []string, found bool, err error) {
	if record.Key == "" {
		return nil, false, nil
	}
	stored, found, err := s.o.Queue.Replay(ctx, shard, record)
	if err != nil || !found {
		return nil, false, err
	}
	ids, err = answeredIDs(stored)
	return ids, true, err
}

// shard chooses the event's shard: by the idempotency key if there is one, so that a replay finds
// its record, and otherwise any shard.
func (s *Store) shard(once api.Idempotency, now time.Time) int {
	if once.Key == "" {
		return s.shardOfTheMoment(now)
	}
	return s.o.Queue.Route(once.Name())
}

// shardSlice is how long a process puts events without a key into one shard.
const shardSlice = 5 * time.Millisecond

// shardOfTheMoment is a random shard, which changes with each shardSlice. So events of the same
// moment are targeted in one batch, which costs as much for one event as for many. Processes have
// different seeds. A shard that cannot be reached is skipped, unless no shard can be reached.
func (s *Store) shardOfTheMoment(now time.Time) int {
	slice := uint64(now.UnixNano() / int64(shardSlice))
	shards := s.o.Queue.Shards()
	first := rand.New(rand.NewPCG(s.seed, slice)).IntN(shards)
	for i := range shards {
		if shard := (first + i) % shards; !s.o.Queue.Avoid(shard) {
			return shard
		}
	}
	return first
}

func onceRecord(once api.Idempotency, first string, n int) queue.Once {
	if once.Key == "" {
		return queue.Once{}
	}
	return queue.Once{
		Key: once.Name(), Body: once.Body, Answer: first + " " + strconv.Itoa(n), TTL: api.IdempotencyTTL,
	}
}

// answeredIDs reads a stored answer.
func answeredIDs(stored string) ([]string, error) {
	first, count, _ := strings.Cut(stored, " ")
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > api.MaxBatchEvents {
		return nil, api.Errorf(api.CodeInternal, "the stored answer %q is not one", stored)
	}
	return idsOf(first, n), nil
}

func idsOf(first string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = nthID(first, i)
	}
	return ids
}

// nthID derives the id of a batch's n-th event from the first id: about the same time, the same
// shard, and 120 bits that are as random as those of the first.
func nthID(first string, n int) string {
	if n == 0 {
		return first
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte(first), uint32(n)))
	return queue.DeriveID(first, sum[:], n)
}

// checkedJob renders one event into its queue entry, and checks it for the platforms to which this
// process sends.
func (s *Store) checkedJob(ctx context.Context, id string, e *api.EventRequest, now time.Time) (queue.Job, error) {
	job, err := s.job(ctx, id, e, now)
	if err == nil && e.Audience.Broadcast == "" { // a broadcast goes to APNs alone
		err = job.Value.(*Job).Push.Check(e, s.o.SendsTo)
	}
	return job, err
}

// job renders one event into its queue entry.
func (s *Store) job(ctx context.Context, id string, e *api.EventRequest, now time.Time) (queue.Job, error) {
	sendAt, err := s.checkTimes(ctx, id, e)
	if err != nil {
		return queue.Job{}, err
	}
	set, err := s.types.templates(ctx, e)
	if err != nil {
		return queue.Job{}, err
	}
	if of := e.Audience.Of(); of != "" {
		about := *e
		about.Object, e = of, &about
	}
	push, err := set.Render(id, e)
	if err != nil {
		return queue.Job{}, err
	}
	audience, pages, err := s.audience(ctx, &e.Audience)
	if err != nil {
		return queue.Job{}, err
	}
	if audience.Channel != nil {
		push.LiveData = nil // for Android
	}
	j := &Job{Type: e.Type, Actor: e.Actor, Object: e.Object, Audience: audience, Push: *push, AcceptedAt: now.UnixMilli(), Trace: trace.Parent(ctx),
		Opened: set.Opened(), Live: liveOf(e, &audience, push.Topics)}
	if !sendAt.IsZero() {
		j.SendAt = sendAt.UnixMilli()
		j.AcceptedAt = j.SendAt
	}
	return entry(id, j, pages), nil
}

// entry is the queue entry of an event, with the pages of a large audience.
func entry(id string, j *Job, pages []string) queue.Job {
	j.here = time.Now()
	shard, _ := queue.ParseID(id)
	job := queue.Job{ID: id, Shard: shard, Report: j.ReportQueued(), Payload: j.Encode(), Value: j, Attachment: pages}
	if j.SendAt > 0 {
		job.NotBefore = time.UnixMilli(j.SendAt)
	}
	return job
}

// checkTimes refuses an event that has expired, or whose SendAt is too late, by the clock of Redis, which
// also decides later. The clock of this server may differ. It returns the SendAt, or zero if the event is
// due now.
func (s *Store) checkTimes(ctx context.Context, id string, e *api.EventRequest) (sendAt time.Time, err error) {
	if e.ExpiresAt == nil && e.SendAt == nil {
		return sendAt, nil
	}
	shard, _ := queue.ParseID(id)
	now, err := s.o.Queue.Now(ctx, shard)
	if err != nil {
		return sendAt, err
	}
	clock := now.UTC().Format(time.RFC3339)
	switch {
	case e.ExpiresAt != nil && !e.ExpiresAt.After(now):
		return sendAt, api.Errorf(api.CodeAlreadyExpired, "expires_at is in the past by the server's clock, %s", clock)
	case e.SendAt == nil || !e.SendAt.After(now):
		return sendAt, nil
	case e.SendAt.Sub(now) > api.MaxSendAhead:
		return sendAt, api.Invalid("send_at", "max", "must be at most 7 days ahead of the server's clock, %s", clock)
	case e.ExpiresAt != nil && !e.SendAt.Before(e.ExpiresAt.Time):
		return sendAt, api.Invalid("send_at", "before", "must be before expires_at")
	}
	return e.SendAt.Time, nil
}
