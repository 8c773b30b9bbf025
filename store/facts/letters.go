package facts

import (
	"context"
	"encoding/json"
	"strings"

	"fanfare/api"
	"fanfare/store/queue"
)

// deadFact is what is told of a dead letter.
type deadFact struct {
	ID       string `json:"id"` // of the dead letter
	Kind     string `json:"kind"`
	Event    string `json:"event,omitempty"`
	Type     string `json:"type,omitempty"`
	App      string `json:"app,omitempty"`
	Queue    string `json:"queue,omitempty"`
	Reason   string `json:"reason"`
	Attempts int    `json:"attempts"`
}

// eventOf is the id of the event that a group of jobs belongs to (events.GroupOf).
func eventOf(group string) string {
	event, _, _ := strings.Cut(group, ":")
	return event
}

// letter is a dead letter that an entry of an outbox describes.
type letter struct {
	*api.DeadLetter
	failed bool // it counts as failed
}

// key is what the facts about a letter are about: an event, or another job.
func (l *letter) key() string {
	if l.Kind == "event" || l.Kind == "notification" {
		return eventOf(l.Group)
	}
	return l.Group
}

// describe says in which lane each entry belongs, and what is told of it. Of a dead letter nothing is told if the types of its facts
// were turned off meanwhile. The lanes are known also after an error.
func (s *Store) describe(ctx context.Context, all []left) (first error) {
	dead := map[*queue.Queue][]int{}
	letters := map[int]letter{}
	for i := range all {
		l := &all[i]
		if l.typ != noteDead {
			l.lane, l.facts = s.laneOf(l.box, l.key), []fact{{l.typ, l.key, l.data}}
			continue
		}
		described, failed := l.box.queue.ToldLetter(l.box.shard, l.key, l.data)
		letters[i] = letter{described, failed}
		one := letters[i]
		l.lane = s.o.Events.LaneOf(one.key())
		dead[l.box.queue] = append(dead[l.box.queue], i)
	}
	for q, places := range dead {
		names := make([]queue.Letter, len(places))
		for n, i := range places {
			names[n] = queue.Letter{Shard: all[i].box.shard, ID: all[i].key}
		}
		found, err := q.Letters(ctx, names)
		if err != nil {
			first = err
			continue
		}
		for n, i := range places {
			one := letters[i]
			if found[n] != nil {
				one.DeadLetter = found[n]
			}
			all[i].facts = s.ofLetter(one)
			all[i].at = stampOf(all[i].key)
		}
	}
	return first
}

// stampOf is the time in the id of an entry of a stream.
func stampOf(id string) string {
	ms, _, _ := strings.Cut(id, "-")
	return ms
}

// ofLetter gives the facts about a dead letter. If the letter is gone already, the fact about its notification has no user and no
// device.
func (s *Store) ofLetter(l letter) (facts []fact) {
	event := ""
	if key := l.key(); key != l.Group || l.Kind == "event" || l.Kind == "notification" {
		event = key
	}
	if l.failed && l.Kind == "notification" && s.o.On(api.FactNotificationFailed) {
		data := s.o.Failed(l.DeadLetter)
		if data == nil {
			data, _ = json.Marshal(map[string]string{"event": event, "reason": l.Reason}) // texts always marshal
		}
		facts = append(facts, fact{api.FactNotificationFailed, event, string(data)})
	}
	if s.o.On(api.FactDeadLetterCreated) {
		data, _ := json.Marshal(deadFact{l.ID, l.Kind, event, l.Type, l.App, l.Queue, l.Reason, l.Attempts}) // texts and numbers always marshal
		facts = append(facts, fact{api.FactDeadLetterCreated, l.key(), string(data)})
	}
	return facts
}
