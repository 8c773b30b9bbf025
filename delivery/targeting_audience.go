package delivery

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// page is one claimed event and the part of its audience at its cursor.
type page struct {
	c      *queue.Claimed
	job    *events.Job
	users  []string
	others []string      // users without the actor
	next   string        // the next page's cursor; "": this is the last
	counts events.Counts // what this page adds to the event's report
	found  []found       // the devices of this page
	missed []string      // users whose settings could not be read
	err    error         // why
	clock  time.Time     // when the claim was answered
}

// found is a device that gets the event.
type found struct {
	user   string
	device *api.Device
}

// begun tells whether part of the audience was already targeted.
func (p *page) begun() bool { return p.job.Cursor != "" || len(p.job.Missed) > 0 }

// large tells whether the page belongs to an audience of many pages.
func (p *page) large() bool { return p.begun() || p.job.Audience.Pages > 0 }

// readPage reads the users at the cursor and says where to go on.
func (t *Targeting) readPage(ctx context.Context, p *page) (users []string, next string, err error) {
	if len(p.job.Missed) > 0 {
		return p.job.Missed, p.job.Next, nil
	}
	a := &p.job.Audience
	switch {
	case a.Kind() != events.KindUsers:
		return t.readNamed(ctx, p)
	case a.Pages == 0:
		return a.Users, "", nil
	}
	index, err := strconv.Atoi("0" + p.job.Cursor)
	if err != nil {
		return nil, "", fmt.Errorf("read cursor: %w", err)
	}
	item, err := t.o.Events.Attachment(ctx, p.c, index)
	if index+1 < a.Pages {
		next = strconv.Itoa(index + 1)
	}
	return events.SplitPage(item), next, err
}

// readNamed reads a page of an audience that is looked up by a name.
func (t *Targeting) readNamed(ctx context.Context, p *page) ([]string, string, error) {
	a := &p.job.Audience
	pager := t.o.Pagers[a.Kind()]
	if pager == nil {
		return nil, "", fmt.Errorf("%w: %s", errNoPager, a.Kind())
	}
	users, err := pager(ctx, a.ContactsOf+a.Chat, p.job.Cursor, events.PageSize)
	if err != nil || len(users) < events.PageSize {
		return users, "", err
	}
	return users, users[len(users)-1], nil
}

// errNoPager says that nobody here can read an audience of this kind.
var errNoPager = errors.New("no pager for this kind of audience")

// deferOrRetry tells a dependency that is away, which uses no attempt, from a
// fault of our own, which does.
func deferOrRetry(reason string, err error) queue.Result {
	r := queue.Result{Outcome: queue.Retry, Reason: reason, Err: err.Error()}
	switch api.CodeOf(err) {
	case api.CodeUnavailable, api.CodeUnknownOutcome, api.CodeOverloaded:
		r.Outcome = queue.Defer
	}
	if errors.Is(err, errNoPager) {
		r.Outcome, r.Reason = queue.Dead, "unknown_audience"
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		r.Outcome = queue.Defer
	}
	return r
}

// depthGuess remembers the last known depth of the shards. A process that only
// targets learns the depth of a shard when it writes to it. When the depth has
// not changed for a while, it has to write a page to learn it.
type depthGuess struct {
	mu    sync.Mutex
	sum   int64
	since time.Time
}

// stale tells whether the number has not moved for a while. It says so once.
func (g *depthGuess) stale(sum int64, now time.Time, after time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if sum == g.sum && now.Sub(g.since) < after {
		return false
	}
	moved := sum != g.sum
	g.sum, g.since = sum, now
	return !moved
}

// blindAfter is how long an unchanged depth defers pages.
const blindAfter = 250 * time.Millisecond

// blindDeepest is the contract's bound: beyond it no page is written to learn the
// depth.
const blindDeepest = 10_000

// tooDeep tells whether some notification shard holds more than the bound.
func (t *Targeting) tooDeep() bool {
	q := t.o.Notifications
	var sum, deepest int64
	for n := range q.Shards() {
		d := q.Depth(n)
		sum, deepest = sum+d, max(deepest, d)
	}
	if deepest <= t.o.Deep {
		return false
	}
	return deepest > blindDeepest || !t.deep.stale(sum, time.Now(), blindAfter)
}
