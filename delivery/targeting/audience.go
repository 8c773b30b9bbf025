package targeting

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// page is one claimed event and the part of its audience at its cursor.
type page struct {
	c         *queue.Claimed
	job       *events.Job
	users     []string
	others    []string             // users without the actor
	targets   []devices.Target     // their settings
	read      time.Time            // when that was read
	next      string               // the next page's cursor; "": this is the last
	counts    events.Counts        // what this page adds to the event's report
	found     []delivery.Recipient // the devices of this page
	missed    []string             // users whose settings were not read
	err       error                // why users were missed
	marks     map[string]string    // marks of earlier notifications, see events.MarkText
	reached   map[string]bool      // users who have a marked notification
	sent      events.Sent          // notifications with a mark that have ended
	claimedAt time.Time            // zero unless the event is traced
	newer     bool                 // a newer live event of its object has begun
	cancelled bool                 // the event was cancelled
	changed   bool                 // the job has an expiry, made of its time to live, or an UnnotedSince that the queue does not have yet
}

// open decodes an event. It returns nil if the event cannot be read, and has ended it then.
func open(c *queue.Claimed) *page {
	j, err := events.JobOf(c)
	if err != nil {
		c.Finish(queue.Result{Outcome: queue.Dead, Reason: "bad_payload", Err: err.Error()})
		return nil
	}
	p := &page{c: c, job: j, changed: j.Push.Begin(c.EnqueuedAt)}
	if j.Trace != "" {
		p.claimedAt = time.Now()
	}
	return p
}

// event is the id of the event that is targeted.
func (p *page) event() string { return p.job.Event(p.c.ID) }

// part reports whether this is a part of a large audience.
func (p *page) part() bool { return p.job.Of != "" }

// begun reports whether part of the audience was already targeted.
func (p *page) begun() bool { return p.job.Cursor != "" || len(p.job.Missed) > 0 || p.part() }

// large reports whether the page belongs to an audience of many pages.
func (p *page) large() bool { return !p.part() && (p.job.Cursor != "" || p.job.Audience.Pages > 0) }

// inSQL reports whether SQL is asked for the page's users.
func (p *page) inSQL() bool {
	return p.job.Audience.InSQL() && len(p.job.Missed) == 0 && !p.part()
}

// readPage reads the users at the cursor and says where to go on.
func (t *Targeting) readPage(ctx context.Context, p *page) (users []string, next string, err error) {
	if len(p.job.Missed) > 0 {
		return p.job.Missed, "", nil
	}
	a := &p.job.Audience
	switch {
	case len(a.Listed()) > 0:
		return a.Listed(), "", nil
	case a.Channel != nil:
		return nil, "", nil
	case a.Kind() != events.KindUsers:
		return t.askPager(ctx, p)
	}
	index, err := strconv.Atoi("0" + p.job.Cursor)
	if err != nil {
		return nil, "", fmt.Errorf("read cursor: %w", err)
	}
	item, err := t.o.Queue.Attachment(ctx, p.c, index)
	if index+1 < a.Pages {
		next = strconv.Itoa(index + 1)
	}
	return events.SplitPage(item), next, err
}

// askPager reads a page of an audience that does not list its users.
func (t *Targeting) askPager(ctx context.Context, p *page) ([]string, string, error) {
	a := &p.job.Audience
	pager := t.o.Pagers[a.Kind()]
	if pager == nil {
		return nil, "", fmt.Errorf("%w: %s", errNoPager, a.Kind())
	}
	name := a.Name()
	if a.All && p.job.Live != nil {
		name = api.LiveStarts // a start needs no device
	}
	users, err := pager(ctx, name, p.job.Cursor, events.PageSize)
	if err != nil || len(users) < events.PageSize {
		return users, "", err
	}
	return users, users[len(users)-1], nil
}

// errNoPager says that this process cannot read audiences of this kind.
var errNoPager = errors.New("no pager for this kind of audience")

// deferOrRetry is delivery.DeferOrRetry, except that an audience which this process cannot read
// makes the event a dead letter.
func deferOrRetry(reason string, err error) queue.Result {
	if errors.Is(err, errNoPager) {
		return queue.Result{Outcome: queue.Dead, Reason: "unknown_audience", Err: err.Error()}
	}
	return delivery.DeferOrRetry(reason, err)
}
