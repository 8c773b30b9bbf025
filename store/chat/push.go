package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
)

const (
	// pushWorkers is the number of chats for which a process makes pushes at once.
	pushWorkers = 8
	// pushWaiting is how many chats may wait for a worker. The sweeper finds other chats.
	pushWaiting = 4096
	// pushBatch is how many messages become events in one round trip.
	pushBatch = 100
	// pushTime limits the work for one batch, and the work that remains at the end.
	pushTime = 5 * time.Second
	// pushChats is how many chats of a bucket one sweep takes.
	pushChats = 100
)

// PusherOptions configure a Pusher. Post is required.
type PusherOptions struct {
	// Post accepts events, each only once even if it is repeated, and returns the events that can
	// never be accepted.
	Post func(ctx context.Context, events ...api.NamedEvent) (refused []error, err error)
	// SweepEvery is how often one of the processes sweeps pushes that were left behind (default 15
	// s). SweepAge is how long they must have been due (default 5 s).
	SweepEvery, SweepAge time.Duration
	// Logger gets the messages that can't be pushed; default: nothing is logged.
	Logger *slog.Logger
}

// Pusher turns messages into events for the members' phones. After a message was sent, Due makes
// its push in the background. The sweep makes pushes that a crash left behind.
type Pusher struct {
	s *Store
	o PusherOptions

	mu      sync.Mutex
	waiting map[string]struct{} // chats in ready
	ready   chan string
}

// NewPusher makes a Pusher. It starts nothing.
func NewPusher(s *Store, o PusherOptions) *Pusher {
	o.SweepEvery = cmp.Or(o.SweepEvery, 15*time.Second)
	o.SweepAge = cmp.Or(o.SweepAge, 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Pusher{s: s, o: o, waiting: map[string]struct{}{}, ready: make(chan string, pushWaiting)}
}

// Due says that a chat has a message to push. It never waits.
func (p *Pusher) Due(chat string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.waiting[chat]; ok {
		return
	}
	select {
	case p.ready <- chat:
		p.waiting[chat] = struct{}{}
	default: // the sweeper finds it
	}
}

// Run makes the pushes of the chats that Due gets, until ctx ends and the chats before that are
// done.
func (p *Pusher) Run(ctx context.Context) error {
	var g errgroup.Group
	for range pushWorkers {
		g.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					p.drain(ctx)
					return nil
				case chat := <-p.ready:
					p.pushNow(ctx, chat)
				}
			}
		})
	}
	return g.Wait()
}

// drain makes the pushes that still wait, until its time is over.
func (p *Pusher) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pushTime)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case chat := <-p.ready:
			p.pushNow(ctx, chat)
		default:
			return
		}
	}
}

// Sweep makes pushes that were left behind, until ctx ends. Only one of the processes sweeps at a
// time.
func (p *Pusher) Sweep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.o.SweepEvery*3/4 + rand.N(p.o.SweepEvery/2)):
		}
		chats, err := p.overdue(ctx)
		if err != nil && ctx.Err() == nil {
			p.o.Logger.Debug("sweeping pushes that are due", "error", err)
		}
		for _, chat := range chats {
			p.push(ctx, chat)
		}
	}
}

// overdue lists the chats in which pushes have been due for too long. The list is empty while
// another process sweeps.
func (p *Pusher) overdue(ctx context.Context) ([]string, error) {
	if mine, _, err := p.s.db.Turn(ctx, sweepKey, p.o.SweepEvery*4/5); err != nil || !mine {
		return nil, err
	}
	return p.s.DuePushes(ctx, p.o.SweepAge, pushChats)
}

// pushNow makes the pushes of a chat. A message that is sent in the meantime makes the chat due
// again.
func (p *Pusher) pushNow(ctx context.Context, chat string) {
	p.mu.Lock()
	delete(p.waiting, chat)
	p.mu.Unlock()
	p.push(context.WithoutCancel(ctx), chat)
}

// push makes all pushes of a chat. Pushes that fail stay due.
func (p *Pusher) push(ctx context.Context, chat string) {
	for more := true; more; {
		batchCtx, cancel := context.WithTimeout(ctx, pushTime)
		var err error
		more, err = p.pushOneBatch(batchCtx, chat)
		cancel()
		if err != nil {
			p.o.Logger.Debug("pushes of a chat stay due", "error", err)
			return
		}
	}
}

// pushOneBatch makes one batch, oldest first, and then records that it is done.
func (p *Pusher) pushOneBatch(ctx context.Context, chat string) (more bool, err error) {
	due, err := p.s.PushMessages(ctx, chat, pushBatch)
	if err != nil || due.Epoch == "" {
		return false, err
	}
	if len(due.Messages) > 0 {
		if err := p.post(ctx, chat, due); err != nil {
			return false, errors.Join(err, p.putBack(ctx, chat, due.Epoch))
		}
	}
	return due.More, p.s.PushDone(ctx, chat, due.Epoch, due.UpTo)
}

// putBack puts a chat whose pushes cannot be made behind the others that are due, so that it hides none
// of them from the next sweep.
func (p *Pusher) putBack(ctx context.Context, chat, epoch string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pushTime) // posting may have taken all of the time
	defer cancel()
	return p.s.PushDone(ctx, chat, epoch, 0)
}

// post makes events of messages. If the text makes the payload too large, the event has no text. A
// message of which no event can be made is dropped with a warning. Redacted messages are left out.
func (p *Pusher) post(ctx context.Context, chat string, due PushBatch) error {
	var events []api.NamedEvent
	for i := range due.Messages {
		if m := &due.Messages[i]; !m.Redacted {
			events = append(events, pushEvent(chat, due.Epoch, m))
		}
	}
	if len(events) == 0 {
		return nil
	}
	refused, err := p.o.Post(ctx, events...)
	if err != nil {
		return err
	}
	var bare []api.NamedEvent
	for i, no := range refused {
		if no != nil {
			events[i].Event.Data["text"] = ""
			bare = append(bare, events[i])
		}
	}
	if len(bare) == 0 {
		return nil
	}
	if refused, err = p.o.Post(ctx, bare...); err != nil {
		return err
	}
	for i, no := range refused {
		if no != nil {
			p.o.Logger.Warn("a message can't be pushed", "message_id", bare[i].Event.Data["message_id"], "error", no)
		}
	}
	return nil
}

// pushEvent is the event about a message, for the chat's members. Its name does not have the run of
// Redis, so that the push is found again in another run. The event's id has the message's time, too:
// if Redis lost the message and gave its id to another one, that one has an event of its own.
func pushEvent(chat, epoch string, m *api.ChatMessage) api.NamedEvent {
	id := strconv.FormatInt(m.ID, 10)
	return api.NamedEvent{
		Name: fmt.Sprintf("chat %s %s %s", chat, LifeOf(epoch), id), Route: chat, At: m.SentAt.Time,
		Event: api.EventRequest{
			Type: api.ChatMessageType, Actor: m.Sender, Object: api.ChatObject(chat), Audience: api.Audience{Chat: chat},
			Data: map[string]string{"chat": chat, "message_id": id, "text": cut(m.Text, api.MaxPushText)},
		},
	}
}

// cut cuts a text to at most size bytes, between two characters.
func cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}
