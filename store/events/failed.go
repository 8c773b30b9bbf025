package events

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
)

// Failed is a notification that failed, as it is kept for whoever asks who did not get an event.
type Failed struct {
	User        string          `json:"u"`
	Token       string          `json:"t,omitempty"` // its ShortToken
	Platform    api.Platform    `json:"p"`
	Topic       string          `json:"o,omitempty"`
	Environment api.Environment `json:"e,omitempty"`
	Reason      string          `json:"r"`
	At          int64           `json:"a,omitempty"` // Unix ms; 0: nobody knows
	Attempts    int             `json:"n,omitempty"` // 0: nobody knows
}

// maxFailedReason is the longest reason that is kept of a notification that failed, in bytes.
const maxFailedReason = 100

// Line is the notification in the form of queue.Result.Failures. Of an erased user's device it says nothing.
func (f Failed) Line() string {
	if f.User == api.ErasedUser {
		f.Token = ""
	}
	f.Reason = strings.ToValidUTF8(f.Reason[:min(len(f.Reason), maxFailedReason)], "")
	b, _ := json.Marshal(f) // texts and numbers always marshal
	return string(b) + "\n"
}

// Recall counts a notification that ended, or was stored, under an earlier claim, as its MarkText tells. One that was stored
// counts only as made.
func (s *Sent) Recall(mark, user string) {
	p, label := platformOf(mark)
	s.Make(p, 1)
	if label == LabelStored {
		return
	}
	s.Count(mark)
	if label, why, _ := strings.Cut(label, reasonMark); label == LabelFailed {
		s.Fail(Failed{User: user, Platform: p, Reason: why})
	}
}

// Fail keeps a notification that failed, unless as many are kept as the event's list takes.
func (s *Sent) Fail(f Failed) {
	if s.kept < queue.MaxFailures {
		s.failures += f.Line()
		s.kept++
	}
}

// FailedNotifications lists the notifications of an event that failed, those of each shard together. after is the
// Next of the page before, "" for the first page. A page may have fewer than limit notifications, or none, and still
// a Next. An event that is unknown, or whose retention is over, is not_found.
func (s *Store) FailedNotifications(ctx context.Context, id, after string, limit int) (*api.EventNotificationList, error) {
	r, err := s.Report(ctx, id)
	if err != nil {
		return nil, err
	}
	list, at := 0, 0
	if after != "" {
		if n, _ := fmt.Sscanf(after, "%d.%d", &list, &at); n != 2 || list < 0 || at < 0 {
			return nil, api.Invalid("cursor", "cursor", "is not a cursor that a list gave as next")
		}
	}
	lists := s.o.Queue.FailureLists([]string{id}) // its parts are on all shards
	groups := []string{id}
	for _, ending := range groupEndings {
		groups = append(groups, id+ending)
	}
	lists = append(lists, s.o.Notifications.FailureLists(groups)...)
	p, err := queue.Failures(ctx, lists, list, at, limit)
	if err != nil {
		return nil, err
	}
	out := &api.EventNotificationList{Items: []api.EventNotification{}, Complete: !p.Full && p.Kept >= r.Failed}
	for _, f := range p.Found {
		if n := toldFailure(&f); n != nil {
			out.Items = append(out.Items, *n)
		}
	}
	if p.List < len(lists) {
		out.Next = fmt.Sprintf("%d.%d", p.List, p.At)
	}
	return out, nil
}

// toldFailure is how a failure is shown; nil: it is that of a part of an event, and of no notification.
func toldFailure(f *queue.Failure) *api.EventNotification {
	if f.Letter != nil {
		return toldLetter(f.Letter)
	}
	var k Failed
	if json.Unmarshal([]byte(f.Line), &k) != nil {
		return nil
	}
	n := &api.EventNotification{User: k.User, Token: k.Token, Platform: k.Platform, Topic: k.Topic, Environment: k.Environment,
		State: api.NotificationFailed, Reason: k.Reason, Attempts: k.Attempts}
	if k.At > 0 {
		n.At = new(api.AtMillis(k.At))
	}
	return n
}

// toldLetter is how the dead letter of a notification is shown.
func toldLetter(l *api.DeadLetter) *api.EventNotification {
	var m struct {
		User, Token, Topic string
		Environment        api.Environment
	}
	if l.Kind != "notification" || json.Unmarshal(l.Payload, &m) != nil {
		return nil
	}
	return &api.EventNotification{User: m.User, Token: api.ShortToken(m.Token), Platform: api.PlatformOf(m.Token, m.Environment), Topic: m.Topic,
		Environment: m.Environment, State: api.NotificationFailed, Reason: l.Reason, At: &l.FailedAt, Attempts: cmp.Or(l.Attempts, 1), DeadLetter: l.ID}
}

// EraseFailures forgets the failures of a user's notifications of events that were accepted before an operation
// began, among keys of Redis, and counts them.
func (s *Store) EraseFailures(ctx context.Context, user string, since time.Time, keys []string) (erased int64, err error) {
	name, _ := json.Marshal(user) // a string always marshals, and Line does the same
	drop := func(group, line string) bool {
		var f Failed
		return strings.Contains(line, string(name)) && json.Unmarshal([]byte(line), &f) == nil && f.User == user &&
			(f.At <= since.UnixMilli() || queue.MadeBefore(EventOfGroup(group), since))
	}
	for _, q := range []*queue.Queue{s.o.Queue, s.o.Notifications} {
		n, err := q.DropFailures(ctx, keys, drop)
		if erased += n; err != nil {
			return erased, err
		}
	}
	return erased, nil
}
