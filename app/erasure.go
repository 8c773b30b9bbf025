package app

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"fanfare/delivery/exchange"
	"fanfare/store/chat"
	"fanfare/store/erasure"
	"fanfare/store/queue"
	"fanfare/store/record"
)

// openErasure makes the store that erases users. The order of the steps matters: uploads go before
// contacts, so that no fan-out brings a contact back, and events before notifications.
func (a *app) openErasure() {
	a.erasure = erasure.New(erasure.Options{
		Record: a.record, Redis: a.redis, Jobs: a.jobQueue, Begin: a.tokens.Erase, Logger: a.log,
		Steps: []erasure.Step{
			{Name: "settings", Run: func(ctx context.Context, o *record.Operation) (erasure.Found, error) {
				found, err := a.devices.Erase(ctx, o)
				return erasure.Found{Counted: found}, err
			}},
			{Name: "uploads and contacts", Run: a.eraseContacts},
			{Name: "answers", Run: a.eraseAnswers},
			{Name: "memberships", Run: func(ctx context.Context, o *record.Operation) (erasure.Found, error) {
				left, err := a.chats.LeaveAll(ctx, o.Subject, time.UnixMilli(o.Since))
				return erasure.Found{Removed: map[string]int64{erasedMemberships: left}}, err
			}},
			{Name: "events", Run: a.eraseEvents},
			{Name: "notifications", Run: a.eraseNotifications},
			{Name: "outbox", Run: a.awaitOutbox},
			{Name: "jobs", Run: a.eraseJobs}, // after the outbox: a job ends after its row
			{Name: "reservations", Run: a.eraseReservations},
			{Name: "sends", Run: a.awaitSends},
			{Name: "keys", Run: a.eraseKeys},
			{Name: "facts", Run: a.eraseFacts}, // after the keys: facts are moved from outboxes to lanes
			{Name: "presence", Run: a.erasePresence},
			{Name: "rest", Run: a.eraseRest},
		},
	})
}

// The kinds of data in Redis that are counted when a user is erased.
const (
	erasedMemberships   = "memberships"
	erasedMessages      = "messages"
	erasedEvents        = "events"
	erasedNotifications = "notifications"
	erasedDeadLetters   = "dead_letters"
	erasedReservations  = "reservations"
	erasedTickets       = "tickets"
	erasedFacts         = "facts"
	erasedAnswers       = record.ErasedAnswers
	keptReservations    = "sold_reservations"
	keptOrders          = "orders"
)

// eraseContacts removes uploads and then, when their fan-outs are done, contacts.
func (a *app) eraseContacts(ctx context.Context, o *record.Operation) (erasure.Found, error) {
	found, busy, err := a.contacts.EraseUploads(ctx, o)
	if err != nil || busy {
		return erasure.Found{Counted: found, Busy: busy}, err
	}
	more, busy, err := a.contacts.EraseContacts(ctx, o)
	return erasure.Found{Counted: found || more, Busy: busy}, err
}

// eraseAnswers takes the user's name out of the answers that are kept for idempotency keys.
func (a *app) eraseAnswers(ctx context.Context, o *record.Operation) (out erasure.Found, err error) {
	for after := ""; ; {
		var n int
		after, n, err = a.record.EraseAnswers(ctx, o, after)
		if out.Counted = out.Counted || n > 0; err != nil || after == "" {
			return out, err
		}
	}
}

func (a *app) eraseEvents(ctx context.Context, o *record.Operation) (erasure.Found, error) {
	n, dead, busy, err := a.events.Erase(ctx, o)
	return erasure.Found{Removed: map[string]int64{erasedEvents: n, erasedDeadLetters: dead}, Busy: busy}, err
}

func (a *app) eraseNotifications(ctx context.Context, o *record.Operation) (erasure.Found, error) {
	n, dead, busy, err := a.delivery.Erase(ctx, o)
	return erasure.Found{Removed: map[string]int64{erasedNotifications: n, erasedDeadLetters: dead}, Busy: busy}, err
}

// eraseJobs waits for the background jobs that name the user, and deletes their dead letters. Orders
// are kept.
func (a *app) eraseJobs(ctx context.Context, o *record.Operation) (erasure.Found, error) {
	orders := a.sales.Jobs()
	names := func(w *queue.Listed) bool {
		_, order := orders[w.Job.Type]
		old := w.Since <= o.Since || bytes.Contains(w.Job.Payload, []byte(o.ID)) // or made by the operation
		return !order && old && hasValue(w.Job.Payload, o.Subject)
	}
	_, busy, err := a.jobQueue.Edit(ctx, func(w *queue.Listed) ([]byte, bool, error) { return nil, names(w), nil })
	if err != nil {
		return erasure.Found{Busy: true}, err
	}
	dead, err := a.jobQueue.DropDead(ctx, func(w *queue.Listed) (bool, error) { return names(w), nil })
	return erasure.Found{Removed: map[string]int64{erasedDeadLetters: dead}, Busy: busy}, err
}

// hasValue reports whether a JSON object has a text as a value, such as the fact of a webhook that is a dead letter.
func hasValue(object []byte, text string) bool {
	if !bytes.Contains(object, []byte(text)) {
		return false
	}
	var values any
	_ = json.Unmarshal(object, &values) // what cannot be read has no values
	return isOrHas(values, text)
}

// isOrHas reports whether a value of JSON is a text, or has it as a value at any depth.
func isOrHas(v any, text string) bool {
	has := func(v any) bool { return isOrHas(v, text) }
	switch v := v.(type) {
	case string:
		return v == text
	case []any:
		return slices.ContainsFunc(v, has)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), has)
	}
	return false
}

func (a *app) eraseReservations(ctx context.Context, o *record.Operation) (erasure.Found, error) {
	e, busy, err := a.sales.Erase(ctx, o)
	return erasure.Found{
		Removed: map[string]int64{erasedReservations: e.Released + e.Forgotten}, Kept: map[string]int64{keptReservations: e.Sold}, Busy: busy,
	}, err
}

// eraseKeys looks for the user in keys that nothing lists by user. It goes through the names of all
// keys.
func (a *app) eraseKeys(ctx context.Context, o *record.Operation) (erasure.Found, error) {
	found, mu := erasure.Found{Removed: map[string]int64{}}, sync.Mutex{}
	err := a.redis.Walk(ctx, erasure.Keys, func(ctx context.Context, keys []string) error {
		mu.Lock() // the masters of a Cluster are walked through at the same time
		defer mu.Unlock()
		chats := chat.ChatsOf(keys)
		left, err := a.chats.LeaveUnlisted(ctx, o.Subject, time.UnixMilli(o.Since), chats...)
		found.Removed[erasedMemberships] += left
		if err != nil {
			return err
		}
		for _, chat := range chats {
			messages, err := a.chats.EraseMessages(ctx, chat, o.Subject, time.UnixMilli(o.Since))
			found.Removed[erasedMessages] += messages
			if err != nil {
				return err
			}
		}
		tickets, err := a.tokens.EraseTickets(ctx, o, keys)
		found.Removed[erasedTickets] += tickets
		if err != nil {
			return err
		}
		records, err := a.sales.EraseRecords(ctx, o, keys)
		found.Removed[erasedAnswers] += records
		if err != nil {
			return err
		}
		failures, err := a.events.EraseFailures(ctx, o.Subject, time.UnixMilli(o.Since), keys)
		found.Removed[erasedNotifications] += failures
		if err != nil {
			return err
		}
		forgotten, err := a.events.EraseRecipients(ctx, o.Subject, time.UnixMilli(o.Since), keys)
		found.Counted = found.Counted || forgotten > 0
		if err != nil {
			return err
		}
		told, err := a.facts.EraseLeft(ctx, o, a.resultsCome(o), keys)
		found.Removed[erasedFacts] += told.Before
		found.Counted = found.Counted || told.Any
		if err != nil {
			return err
		}
		return a.events.EraseMarks(ctx, o, keys)
	})
	return found, err
}

// eraseFacts looks for the user in the lanes of facts.
func (a *app) eraseFacts(ctx context.Context, o *record.Operation) (erasure.Found, error) {
	told, err := a.facts.Erase(ctx, o)
	return erasure.Found{Removed: map[string]int64{erasedFacts: told.Before}}, err
}

// resultsCome is for how long after the beginning of an operation results may come of requests to push services that began before the
// user's devices were removed.
func (a *app) resultsCome(o *record.Operation) time.Duration {
	return o.Settling() + exchange.RequestTimeout + a.config.NotificationLease
}

// awaitSends waits for the end of the requests to push services that were under way when the user's devices and activities were
// removed, if there may have been any. One that fails late is told with the user's name, beside its event, and the step of the keys then
// removes that. A result that comes later than a lease after its request is not taken.
func (a *app) awaitSends(_ context.Context, o *record.Operation) (erasure.Found, error) {
	if o.SettledAt == 0 { // the user never had any
		return erasure.Found{}, nil
	}
	return erasure.Found{Wait: max(time.UnixMilli(o.Since).Add(a.resultsCome(o)).Sub(a.redis.Clock()), 0)}, nil
}

// presenceEnds is by when the presence of streams that were open when the operation began has ended.
const presenceEnds = 45 * time.Second

// erasePresence waits for the end of the user's streams.
func (a *app) erasePresence(ctx context.Context, o *record.Operation) (erasure.Found, error) {
	if a.redis.Clock().After(time.UnixMilli(o.Since).Add(presenceEnds)) {
		return erasure.Found{}, nil
	}
	present, err := a.streams.Present(ctx, o.Subject)
	return erasure.Found{Busy: present}, err
}

// awaitOutbox waits until the outbox does not name the user, but for facts of what happened later.
func (a *app) awaitOutbox(ctx context.Context, o *record.Operation) (erasure.Found, error) {
	open, err := a.record.OpenErasure(ctx, o, a.resultsCome(o))
	return erasure.Found{Busy: open > 0}, err
}

// eraseRest counts the orders, which are kept, and removes the version of the user's settings.
func (a *app) eraseRest(ctx context.Context, o *record.Operation) (erasure.Found, error) {
	orders, err := a.record.OrdersOf(ctx, o.Subject)
	if err != nil {
		return erasure.Found{Busy: true}, err
	}
	if err := a.badges.Erase(ctx, o.Subject, time.UnixMilli(o.Since)); err != nil {
		return erasure.Found{Busy: true}, err
	}
	return erasure.Found{Kept: map[string]int64{keptOrders: orders}}, a.devices.Forget(ctx, o.Subject)
}
