package targeting_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/targeting"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// awaitFacts waits until a fact of a type is told about an event, and returns all about it as "<type> <data>".
func (p *pipeline) awaitFacts(id, typ string) (told []string) {
	p.Helper()
	storetest.Eventually(p, soon, typ+" is told", func() bool {
		told = nil
		for _, one := range p.mustFacts(p.Context())[id] {
			told = append(told, one.Type+" "+string(one.Data))
		}
		return slices.ContainsFunc(told, func(one string) bool { return strings.HasPrefix(one, typ+" ") })
	})
	return told
}

// H1: what facts say of an event, of each notification that failed, with the begin of its device's token, and of a dead letter.
func TestH1_WhatFactsSay(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	for n, user := range []string{"bob", "eve", "amy"} {
		p.mustDevice(user, n+1)
	}
	p.apns.Script(token(1), apnstest.Gone("Unregistered", time.Now().Add(time.Hour)))
	p.apns.Script(token(3), apnstest.Fail(400, "BadCollapseId"))
	wants := func(id string, want ...string) {
		t.Helper()
		p.mustEnd(id, api.EventDone)
		told := p.awaitFacts(id, api.FactEventDone)
		slices.Sort(told[:len(told)-1])
		if strings.Join(told, "\n") != strings.Join(want, "\n") {
			t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
	}
	wants(p.mustPost(hello("eve")), `event.done {"state":"done","type":"hello","recipients":1,"notifications":1,"delivered":1,"failed":0}`)
	id := p.mustPost(hello("bob", "eve", "amy", "none"))
	q := p.first.queueOfNotes
	letter := q.DeadID(q.Route(token(3)), events.NotificationJob(id, token(3)))
	failed := func(user string, n int, reason string) string {
		return fmt.Sprintf(`notification.failed {"event":%q,"user":%q,"device":%q,"platform":"apns","topic":"com.example.app","environment":"production","reason":%q,"attempts":1}`,
			id, user, token(n)[:8], reason)
	}
	wants(id,
		fmt.Sprintf(`dead_letter.created {"id":%q,"kind":"notification","event":%q,"type":"hello","app":"com.example.app/production","reason":"BadCollapseId","attempts":1}`, letter, id),
		failed("amy", 3, "BadCollapseId"), failed("bob", 1, "Unregistered"),
		`event.done {"state":"done","type":"hello","recipients":4,"notifications":3,"delivered":1,"failed":2,`+
			`"suppressed":{"is_actor":0,"opted_out":0,"muted":0,"no_device":1,"live":0},"failed_by":{"BadCollapseId":1,"Unregistered":1}}`)
}

// H1: an event that is a dead letter is not over, also if all that it began has ended. It is when the letter was retried and all was sent.
func TestH1_ADeadEventIsNotOver(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		parts int64 // of a first page, which can be read
		done  string
	}{
		"NothingWasBegun": {0, `{"state":"done","type":"hello","recipients":1,"notifications":1,"delivered":1,"failed":0}`},
		"APageHasEnded": {events.PageSize / events.PartSize, `{"state":"done","type":"hello","recipients":1001,"notifications":2,"delivered":2,"failed":0,` +
			`"suppressed":{"is_actor":0,"opted_out":0,"muted":0,"no_device":999,"live":0}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var works atomic.Bool
			p := setup(t, options{
				queue: func(o *queue.Options) { o.MaxAttempts, o.RetryBase, o.RetryMax = 2, time.Millisecond, time.Millisecond },
				target: func(o *targeting.Options) {
					o.Pagers[events.KindContactsOf] = func(_ context.Context, _, after string, limit int) ([]string, error) {
						switch {
						case after == "" && row.parts > 0:
							return fans(limit), nil
						case !works.Load():
							return nil, errors.New("broken")
						}
						return []string{"zoe"}, nil
					}
				},
			})
			p.mustDevice("zoe", 1)
			p.mustDevice("fan000000", 2)
			id := p.mustPost(contactsOf("bob"))
			p.awaitFacts(id, api.FactDeadLetterCreated)
			storetest.Eventually(t, soon, "the parts have ended", func() bool {
				counts, err := p.first.queueOfEvents.Groups(t.Context(), id)
				return err == nil && counts[events.LabelPart] == row.parts
			})
			storetest.Must(t, p.facts.Sweep(t.Context()))
			if told := p.awaitFacts(id, api.FactDeadLetterCreated); len(told) != 1 || !strings.Contains(told[0], `"kind":"event","event":"`+id+`","type":"hello",`) {
				t.Errorf("told %q", told)
			}
			letters, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfEvents)
			if err != nil || len(letters.Items) != 1 {
				t.Fatalf("%v, %v", letters, err)
			}
			works.Store(true)
			_, _, err = p.first.queueOfEvents.RetryDead(t.Context(), letters.Items[0].ID, queue.Once{})
			storetest.Must(t, err)
			p.mustEnd(id, api.EventDone)
			if all := p.awaitFacts(id, api.FactEventDone); len(all) != 2 || all[1] != "event.done "+row.done {
				t.Errorf("told %q, want %q at the end", all, row.done)
			}
		})
	}
}
