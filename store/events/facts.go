package events

import (
	"context"
	"encoding/json"

	"fanfare/api"
	"fanfare/store/queue"
)

// doneFact is what is told of an event that is over. The script that tells it may replace the state, which comes first.
type doneFact struct {
	State         api.EventState       `json:"state"`
	Type          string               `json:"type"`
	Recipients    *int64               `json:"recipients"` // null for an event to a broadcast
	Notifications int64                `json:"notifications"`
	Delivered     int64                `json:"delivered"`
	Failed        int64                `json:"failed"`
	Expired       int64                `json:"expired,omitempty"`
	Cancelled     int64                `json:"cancelled,omitempty"`
	Superseded    int64                `json:"superseded,omitempty"`
	Suppressed    api.SuppressedCounts `json:"suppressed,omitzero"`
	FailedBy      map[string]int64     `json:"failed_by,omitempty"`
}

func doneData(r *api.EventReport) []byte {
	b, _ := json.Marshal(doneFact{State: r.State, Type: r.Type, Recipients: r.Recipients, Notifications: r.Notifications, Delivered: r.Delivered,
		Failed: r.Failed, Expired: r.Expired, Cancelled: r.Cancelled, Superseded: r.Superseded, Suppressed: r.Suppressed, FailedBy: r.FailedBy}) // texts and numbers always marshal
	return b
}

// failedFact is what is told of a notification that failed.
type failedFact struct {
	Event       string          `json:"event"`
	User        string          `json:"user"`
	Device      string          `json:"device,omitempty"` // as in dead letters: the begin and the end of its token
	Platform    api.Platform    `json:"platform"`
	Topic       string          `json:"topic,omitempty"`
	Environment api.Environment `json:"environment,omitempty"`
	Reason      string          `json:"reason"`
	Attempts    int             `json:"attempts,omitempty"`
}

// TellOver adds to the result that ends an event the fact that the event is over. It leaves a note instead, by which the relay finds
// out, if notifications or parts of the event may be left, as when it was claimed before, or if the fact may have been told before.
func (s *Store) TellOver(c *queue.Claimed, j *Job, r queue.Result) queue.Result {
	if s == nil || j.Of != "" || !s.o.Tells(api.FactEventDone) {
		return r
	}
	f := queue.Fact{Lane: c.Shard, Key: c.ID}
	if p, err := parseProgress(r.Report); err == nil && (p.state == stateDone || p.state != stateTargeted && p.parts == 0 && c.First) && !c.Named() {
		w := whole{id: c.ID, event: p, sent: make([]map[string]int64, 1+len(groupEndings))}
		f.Type, f.Data = api.FactEventDone, doneData(w.report())
	}
	r.Facts = append(r.Facts, f)
	return r
}

// TellFailed is the fact that a notification of an event failed; nil if such facts are not told.
func (s *Store) TellFailed(event string, f Failed) []queue.Fact {
	if s == nil || !s.o.Tells(api.FactNotificationFailed) {
		return nil
	}
	return []queue.Fact{{Lane: s.o.Queue.LaneOf(event), Type: api.FactNotificationFailed, Key: event, Data: failedData(event, f)}}
}

func failedData(event string, f Failed) []byte {
	if f.User == api.ErasedUser {
		f.Token = ""
	}
	b, _ := json.Marshal(failedFact{Event: event, User: f.User, Device: f.Token, Platform: f.Platform, Topic: f.Topic, Environment: f.Environment,
		Reason: f.Reason, Attempts: f.Attempts}) // texts and numbers always marshal
	return b
}

// LetterFailed is the data of the fact about a failed notification that is a dead letter; nil if the letter is of no notification.
func LetterFailed(l *api.DeadLetter) json.RawMessage {
	n := toldLetter(l)
	if n == nil {
		return nil
	}
	return failedData(EventOfGroup(l.Group), Failed{User: n.User, Token: n.Token, Platform: n.Platform, Topic: n.Topic, Environment: n.Environment,
		Reason: n.Reason, Attempts: n.Attempts})
}

// Over tells which of some events are over, and what is told of them. Events without a report are not among them.
func (s *Store) Over(ctx context.Context, ids []string) (map[string]json.RawMessage, error) {
	read, err := s.o.Queue.ReportsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	all, err := s.wholes(ctx, read)
	if err != nil {
		return nil, err
	}
	over := map[string]json.RawMessage{}
	for i := range all {
		r := all[i].report()
		if all[i].over(r) {
			over[all[i].id] = doneData(r)
		}
	}
	return over, nil
}

// over reports whether nothing of an event is left to do, also of a cancelled one.
func (w *whole) over(r *api.EventReport) bool {
	event := w.event
	event.cancelled = queue.NotCancelled
	state := stateOf(&event, allEnded(r))
	return allEnded(r) && !w.partsLeft && (state == api.EventDone || state == api.EventExpired || state == api.EventSuperseded)
}
