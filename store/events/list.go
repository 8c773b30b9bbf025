package events

import (
	"context"

	"fanfare/api"
	"fanfare/store/queue"
)

// What a page of a list looks at.
const (
	maxLooked = 1000 // events in all
	lookStep  = 100  // events whose reports are made in one step
)

// ListQuery says which events are listed: those of a type and in a state, or all if both are "" and Failed is nil. The list
// begins behind the event with the id After, or with the newest one. A page has at most Limit events.
type ListQuery struct {
	Type  string
	State api.EventState
	// Failed is which events are listed: those of which notifications failed, or the others; nil: both.
	Failed *bool
	After  string
	Limit  int
}

// List lists events, newest first by the 32nd of a second that their ids hold, and each event once over
// all pages. A page looks at up to 1,000 events, in up to 10 steps of three pipelines. The second result is
// the id behind which the next page begins, "" at the end of the list.
func (s *Store) List(ctx context.Context, q ListQuery) (*api.EventList, string, error) {
	list := &api.EventList{Items: []api.ListedEvent{}}
	for looked, step := 0, 0; looked < maxLooked; looked += step {
		if step = lookStep; q.Type == "" && q.State == "" && q.Failed == nil {
			step = min(step, q.Limit-len(list.Items))
		}
		read, err := s.o.Queue.Reports(ctx, q.After, step+1)
		if err != nil {
			return nil, "", err
		}
		found, err := s.matching(ctx, &q, read[:min(step, len(read))])
		if err != nil {
			return nil, "", err
		}
		for i, e := range found {
			if q.After = read[i].ID; e != nil {
				list.Items = append(list.Items, *e)
			}
			if len(list.Items) == q.Limit && i+1 < len(read) {
				return list, q.After, nil
			}
		}
		if len(read) <= step {
			return list, "", nil
		}
	}
	return list, q.After, nil
}

// matching makes the items of the list, nil for each event that is not wanted.
func (s *Store) matching(ctx context.Context, q *ListQuery, read []queue.Reported) ([]*api.ListedEvent, error) {
	items := make([]*api.ListedEvent, len(read))
	var of places
	for i, r := range read {
		if q.Type == "" || q.Type == typeOf(r.Report) {
			of = append(of, i)
		}
	}
	wanted := make([]queue.Reported, len(of))
	for n, i := range of {
		wanted[n] = read[i]
	}
	found, err := s.wholes(ctx, wanted)
	for n := range found {
		r := found[n].report()
		if (q.State == "" || q.State == r.State) && (q.Failed == nil || *q.Failed == (r.Failed > 0)) {
			items[of[n]] = &api.ListedEvent{ID: r.ID, Type: r.Type, State: r.State, AcceptedAt: api.At(wanted[n].At), SendAt: r.SendAt, Recipients: r.Recipients,
				Notifications: r.Notifications, Delivered: r.Delivered, Failed: r.Failed, Expired: r.Expired, Cancelled: r.Cancelled,
				Superseded: r.Superseded}
		}
	}
	return items, err
}
