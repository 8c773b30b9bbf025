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
func (s *Store) describe(ctx context.Context, all []left) error {
	var letters []letter
	var names []queue.Letter
	var places []int
	for i := range all {
		l := &all[i]
		if l.typ != noteDead {
			l.lane, l.facts = s.laneOf(l.box, l.key), []fact{{l.typ, l.key, l.data}}
			continue
		}
		described, failed := l.box.queue.ToldLetter(l.box.shard, l.key, l.data)
		one := letter{described, failed}
		l.lane = s.o.Events.LaneOf(one.key())
		letters, places = append(letters, one), append(places, i)
		names = append(names, queue.Letter{Queue: l.box.queue, Shard: l.box.shard, ID: l.key})
	}
	found, err := queue.Letters(ctx, names...)
	if err != nil {
		return err
	}
	for n, i := range places {
		if found[n] != nil {
			letters[n].DeadLetter = found[n]
		}
		all[i].facts, all[i].at = s.ofLetter(letters[n]), stampOf(all[i].key)
	}
	return nil
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
