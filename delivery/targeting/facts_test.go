package targeting_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/events"
	"fanfare/store/facts"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// relayFacts moves facts as a server does, until the test ends.
func (p *pipeline) relayFacts() {
	f := p.first
	p.facts = facts.New(facts.Options{DB: p.db, Events: f.queueOfEvents, Outboxes: facts.OutboxesOf(f.queueOfEvents, f.queueOfNotes),
		On: func(string) bool { return true }, Over: f.events.Over, Failed: events.LetterFailed})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = p.facts.Run(ctx) })
	p.Cleanup(func() { stop(); running.Wait() })
}

// H1, H2: compareFacts compares, at the end of each test of this package, what is told of the events that it posted with their reports:
// those that are over are told once to be over, as the last fact and with the same numbers, and as many notifications as have failed
// are told to have failed. A dead letter that is tried again has failed before. Tests that erase a user's facts have fewer.
func (p *pipeline) compareFacts() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if p.o.noFacts || p.erased || p.Failed() || p.db.Client().Ping(ctx).Err() != nil {
		return
	}
	if err := p.facts.Sweep(ctx); err != nil {
		p.Errorf("move facts: %v", err)
	}
	told := p.mustFacts(ctx)
	for _, id := range p.ids {
		if r, err := p.first.events.Report(ctx, id); err == nil {
			p.compare(id, r, told[id])
		}
	}
}

// mustFacts reads all facts, by key.
func (p *pipeline) mustFacts(ctx context.Context) map[string][]api.Fact {
	told := map[string][]api.Fact{}
	for after := ""; ; {
		list, err := p.facts.Read(ctx, nil, after, nil, api.MaxFacts)
		if err != nil {
			p.Errorf("read facts: %v", err)
			return told
		}
		for _, one := range list.Items {
			told[one.Key] = append(told[one.Key], one)
		}
		if after = list.Next; len(list.Items) == 0 {
			return told
		}
	}
}

// compare compares the facts of an event with its report.
func (p *pipeline) compare(id string, r *api.EventReport, told []api.Fact) {
	failed, dead, done, opened, dismissed := 0, 0, 0, int64(0), int64(0)
	told = slices.DeleteFunc(slices.Clone(told), func(one api.Fact) bool { // a user may do that before the event is over, or later
		if one.Type == api.FactNotificationOpened {
			opened++
		}
		if one.Type == api.FactNotificationDismissed {
			dismissed++
		}
		return one.Type == api.FactNotificationOpened || one.Type == api.FactNotificationDismissed
	})
	if r.Opened != nil && (opened != *r.Opened || dismissed != *r.Dismissed) || r.Opened == nil && opened+dismissed > 0 {
		p.Errorf("event %s is told to be opened %d times and dismissed %d times; report %+v", id, opened, dismissed, r)
	}
	for _, one := range told {
		switch one.Type {
		case api.FactNotificationFailed:
			failed++
		case api.FactDeadLetterCreated:
			dead++
		case api.FactEventDone:
			done++
		}
	}
	over := r.State == api.EventDone || r.State == api.EventExpired || r.State == api.EventSuperseded ||
		r.State == api.EventCancelled && r.Notifications == r.Delivered+r.Failed+r.Expired+r.Cancelled+r.Superseded
	if r.State == api.EventCancelled && done == 0 { // perhaps its audience was not targeted yet
		over = false
	}
	if over && done != 1 || !over && done > 0 && dead == 0 || int64(failed) < r.Failed || int64(failed) > r.Failed && dead == 0 {
		p.Errorf("event %s is told to be over %d times, with %d failed notifications and %d dead letters; report %+v", id, done, failed, dead, r)
	}
	if done == 0 || dead > 0 {
		return
	}
	last := told[len(told)-1]
	var d struct {
		State                                                            api.EventState
		Recipients                                                       *int64
		Notifications, Delivered, Failed, Expired, Cancelled, Superseded int64
	}
	if err := json.Unmarshal(last.Data, &d); err != nil || last.Type != api.FactEventDone || d.State != r.State || !reflect.DeepEqual(d.Recipients, r.Recipients) ||
		!slices.Equal([]int64{d.Notifications, d.Delivered, d.Failed, d.Expired, d.Cancelled, d.Superseded},
			[]int64{r.Notifications, r.Delivered, r.Failed, r.Expired, r.Cancelled, r.Superseded}) {
		p.Errorf("the last fact of event %s is %s %s; report %+v", id, last.Type, last.Data, r)
	}
}

// H1: a cancelled event is over when nothing of it is left, and is told as cancelled.
func TestH1_CancelledEventsAreOver(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"BeforeItWasTargeted": false, "WhileItsNotificationWaits": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{idle: true, waits: waits})
			p.mustDevice("bob", 1)
			id := p.mustPost(hello("bob"))
			if waits {
				p.apns.ScriptAll(apnstest.Answer{Status: 503, Reason: "ServiceUnavailable"})
				p.first.start()
				storetest.Eventually(t, soon, "it waits", func() bool { return p.mustReport(id).Retrying == 1 })
			}
			p.mustCancel(id)
			if !waits {
				p.first.start()
			}
			var last api.Fact
			storetest.Eventually(t, soon, "it is told to be over", func() bool {
				for _, one := range p.mustFacts(t.Context())[id] {
					last = one
				}
				return last.Type == api.FactEventDone
			})
			if !strings.HasPrefix(string(last.Data), `{"state":"cancelled","type":"hello"`) {
				t.Errorf("it is told with %s", last.Data)
			}
		})
	}
}

// H1: that an event is over is told once, also if a dead letter of it is tried again later.
func TestH1_ARetriedLetterEndsNoEventAgain(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustDevice("bob", 1)
	p.apns.ScriptAll(apnstest.Answer{Status: 400, Reason: "BadCollapseId"})
	id := p.mustPost(hello("bob"))
	types := func() (types []string) {
		for _, one := range p.mustFacts(t.Context())[id] {
			types = append(types, one.Type)
		}
		return types
	}
	want := []string{api.FactNotificationFailed, api.FactDeadLetterCreated, api.FactEventDone}
	storetest.Eventually(t, soon, "it is told to be over", func() bool { return slices.Contains(types(), api.FactEventDone) })
	if got := types(); !slices.Equal(got, want) {
		t.Errorf("it has %v, want %v", got, want)
	}
	letters, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfNotes)
	if err != nil || len(letters.Items) != 1 {
		t.Fatalf("%v, %v", letters, err)
	}
	p.apns.ScriptAll()
	_, _, err = p.first.queueOfNotes.RetryDead(t.Context(), letters.Items[0].ID, queue.Once{})
	storetest.Must(t, err)
	storetest.Eventually(t, soon, "it is delivered", func() bool { r := p.mustReport(id); return r.Delivered == 1 && r.Failed == 0 })
	storetest.Must(t, p.facts.Sweep(t.Context()))
	if got := types(); !slices.Equal(got, want) {
		t.Errorf("after the retry it has %v, want %v", got, want)
	}
}
