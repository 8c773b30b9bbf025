package jobs

import (
	"container/list"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/store/wake"
)

const (
	// lookEvery is how often a queue with waiting workers is asked although nobody told that there is something to do.
	lookEvery = 10 * time.Second
	// leastRest is the least time between two looks for what is due.
	leastRest = 5 * time.Millisecond
	// afterError is when others try after a claim that failed.
	afterError = time.Second
	// linger is how long the subscription of a queue stays after its last waiting worker has left: most come again.
	linger = 10 * time.Second
)

// rooms have the workers of this process that wait, by queue. One subscription to a queue serves all of them, and each
// message lets one of them try, and more as long as they get jobs.
type rooms struct {
	store *Store
	line  *wake.Line

	closed chan struct{}

	mu   sync.Mutex
	open map[string]*room
}

// room is where the workers of one queue wait. The lock of rooms guards its fields.
type room struct {
	of      *rooms
	queue   string
	waiting list.List // of *waiter, in the order in which they came
	changes int64     // how often somebody told of a change
	look    bool      // somebody told of a change since the last look
	looked  time.Time // when
	due     time.Time // when a job of the queue is due; zero: none is known to be
	empty   time.Time // since when nobody waits; zero: somebody does
	poke    chan struct{}
}

// waiter is a claim that waits.
type waiter struct {
	call   *call
	kinds  string        // all with the same types may take the same jobs
	place  *list.Element // in the line; nil: it has left that
	trying bool
	left   bool // its caller has left while it tried
	done   chan struct{}
	err    error // valid, as the jobs of the call, once done is closed
}

// changes tells how often somebody has told of a change of a queue; -1: nobody listens yet.
func (rs *rooms) changes(queue string) int64 {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.open[queue]; r != nil {
		return r.changes
	}
	return -1
}

// await waits with a claim that found nothing, until it gets jobs or ctx ends. seen is what changes said before the claim.
func (rs *rooms) await(ctx context.Context, queue string, c *call, seen int64) error {
	w := &waiter{call: c, kinds: kindsOf(c), done: make(chan struct{})}
	r := rs.join(ctx, queue, w, seen)
	select {
	case <-w.done:
	case <-ctx.Done():
		if r.leave(w) {
			<-w.done // it tries just now
		}
	}
	return w.err
}

// kindsOf is a text that two claims for the same types have in common.
func kindsOf(c *call) string {
	var kinds []string
	for _, kind := range c.args[6:] {
		kinds = append(kinds, kind.(string))
	}
	slices.Sort(kinds)
	return strings.Join(kinds, " ")
}

func (rs *rooms) join(ctx context.Context, queue string, w *waiter, seen int64) *room {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.open[queue]
	if r == nil {
		r = &room{of: rs, queue: queue, looked: time.Now(), poke: make(chan struct{}, 1)}
		rs.open[queue] = r
		go r.run(context.WithoutCancel(ctx))
	} else if r.changes != seen {
		r.look = true // the change may have come between the claim and now
	}
	w.place = r.waiting.PushBack(w)
	r.note(w.call.due)
	select {
	case r.poke <- struct{}{}:
	default:
	}
	return r
}

// leave takes a waiter out, and reports whether it tries just now, so that its end must be awaited.
func (r *room) leave(w *waiter) (trying bool) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	w.left = true
	r.take(w)
	return w.trying
}

// take takes a waiter out of the line. It needs the lock, and takes no longer if many wait: they may all leave at once.
func (r *room) take(w *waiter) {
	if w.place != nil {
		r.waiting.Remove(w.place)
		w.place = nil
	}
}

// line are those who wait, in their order. It needs the lock.
func (r *room) line() iter.Seq[*waiter] {
	return func(yield func(*waiter) bool) {
		for at := r.waiting.Front(); at != nil; at = at.Next() {
			if !yield(at.Value.(*waiter)) {
				return
			}
		}
	}
}

// note notes when a job is due. It needs the lock.
func (r *room) note(due time.Duration) {
	at := time.Now().Add(max(due, leastRest))
	if due >= 0 && (r.due.IsZero() || at.Before(r.due)) {
		r.due = at
	}
}

// run lets waiters try when there may be something for them, until none has come for a while.
func (r *room) run(ctx context.Context) {
	channel := r.of.store.channel(r.queue)
	told := r.of.line.Join(ctx, channel)
	defer r.of.line.Leave(channel, told)
	for {
		rest, over := r.rest()
		if over {
			return
		}
		if rest <= 0 {
			r.try(ctx)
			continue
		}
		timer := time.NewTimer(rest)
		select {
		case <-told:
			r.told()
		case <-timer.C:
		case <-r.poke:
		case <-r.of.closed:
			timer.Stop()
			r.end()
			return
		}
		timer.Stop()
	}
}

// told notes that somebody told of a change.
func (r *room) told() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.changes++
	r.look = true
}

// rest is how long there is nothing to do, and reports whether the room is over.
func (r *room) rest() (left time.Duration, over bool) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.waiting.Len() == 0 {
		if r.look = false; r.empty.IsZero() {
			r.empty = time.Now()
		}
		if left = linger - time.Since(r.empty); left > 0 {
			return left, false
		}
		delete(r.of.open, r.queue)
		return 0, true
	}
	r.empty = time.Time{}
	if r.look {
		return 0, false
	}
	next := r.looked.Add(lookEvery)
	if !r.due.IsZero() && r.due.Before(next) {
		next = r.due
	}
	return time.Until(next), false
}

// end ends the room and the waits of all in it.
func (r *room) end() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	delete(r.of.open, r.queue)
	for w := range r.line() {
		w.place = nil
		close(w.done)
	}
	r.waiting.Init()
}

// try lets the first waiter of each kind try, and twice as many again as long as all of them get jobs.
func (r *room) try(ctx context.Context) {
	r.of.mu.Lock()
	r.look, r.looked, r.due = false, time.Now(), time.Time{}
	kinds := map[string]bool{}
	for w := range r.line() {
		kinds[w.kinds] = true
	}
	r.of.mu.Unlock()
	var all sync.WaitGroup
	for kind := range kinds {
		all.Go(func() {
			for n := 1; n > 0 && r.tryTogether(ctx, kind, n); n *= 2 {
			}
		})
	}
	all.Wait()
}

// tryTogether lets the first waiters of a kind try, and reports whether all of them got jobs.
func (r *room) tryTogether(ctx context.Context, kind string, most int) bool {
	var some []*waiter
	r.of.mu.Lock()
	for w := range r.line() {
		if len(some) == most {
			break
		}
		if w.kinds == kind {
			w.trying = true
			some = append(some, w)
		}
	}
	r.of.mu.Unlock()
	var all sync.WaitGroup
	for _, w := range some {
		all.Go(func() { w.err = r.of.store.claim(ctx, r.queue, w.call) })
	}
	all.Wait()
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	got := 0
	for _, w := range some {
		w.trying = false
		found := w.err == nil && (len(w.call.jobs) > 0 || w.call.status == replayed)
		if found {
			got++
		}
		switch {
		case w.err == nil:
			r.note(w.call.due)
		case api.CodeOf(w.err) == api.CodeIdempotencyReused: // it says nothing about the queue
			got++
		default:
			r.note(afterError)
		}
		if found || w.err != nil || w.left {
			r.take(w)
			close(w.done)
		}
	}
	return got > 0 && got == len(some)
}

// Close ends the waits of all workers, who get no jobs.
func (s *Store) Close() {
	s.rooms.mu.Lock()
	defer s.rooms.mu.Unlock()
	select {
	case <-s.rooms.closed:
	default:
		close(s.rooms.closed)
	}
}
