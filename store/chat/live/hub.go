package live

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/chat"
	"fanfare/store/redisdb"
)

const (
	// checkEvery is how often a chat's last id is compared with what was heard:
	// pub/sub only hints, and a hint may get lost.
	checkEvery = 15 * time.Second
	// rereadEvery is how often an open stream's list of chats is read again for
	// the same reason. Joins and leaves are heard of at once.
	rereadEvery = time.Minute
	// tickEvery is how often Hub looks what is due, and tries again what failed.
	tickEvery = time.Second
	// batchSize bounds one pipeline, and the channels of one SUBSCRIBE.
	batchSize = 500
	// channelSize is how many messages of Redis may wait for being handed out.
	channelSize = 4096
	// liveCall bounds the subscribing of new channels.
	liveCall = 2 * time.Second
)

// Hub is all streams and long polls of one process. They share one connection
// of pub/sub, one reading of the last ids of their chats every 15 s, one
// pipeline that says who is live, and the newest messages of each chat in
// memory. It is safe for concurrent use; Run must run.
type Hub struct {
	chats *chat.Store
	db    *redisdb.DB
	log   *slog.Logger
	owner string        // this process, in the marks of presence
	kick  chan struct{} // Run has something to do at once
	kept  budget        // bytes of messages in all topics

	mu      sync.Mutex
	topics  map[string]*topic   // by channel
	changed map[string]struct{} // channels that came or went since Run looked
	unsure  map[*topic]struct{} // chats whose last id must be looked at
	present map[string]*visit   // by user
}

// New makes the hub of a store of chats on the same Redis; log may be nil. It
// starts nothing.
func New(chats *chat.Store, db *redisdb.DB, log *slog.Logger) *Hub {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Hub{
		chats: chats, db: db, log: log, owner: rand.Text(), kick: make(chan struct{}, 1),
		topics: map[string]*topic{}, changed: map[string]struct{}{}, unsure: map[*topic]struct{}{}, present: map[string]*visit{},
	}
}

// Run serves the open streams until ctx ends: it subscribes, hands out what is
// published, compares positions, and renews presence.
func (h *Hub) Run(ctx context.Context) error {
	// The subscription makes its connections by itself, also after ctx's end.
	sub := h.db.Blocking().Subscribe(context.WithoutCancel(ctx))
	var heard sync.WaitGroup
	heard.Go(func() { h.dispatch(sub.ChannelWithSubscriptions(redis.WithChannelSize(channelSize))) })
	defer heard.Wait()
	defer sub.Close()

	subscribed := map[string]struct{}{}
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.kick:
		case now := <-tick.C:
			h.tick(now)
			h.renew(ctx, now)
		}
		h.subscribe(ctx, sub, subscribed)
		h.check(ctx)
	}
}

// hurry makes Run look at once.
func (h *Hub) hurry() {
	select {
	case h.kick <- struct{}{}:
	default: // it has not looked since the last time
	}
}

// dispatch hands out what is heard until the subscription is closed.
func (h *Hub) dispatch(events <-chan any) {
	for event := range events {
		switch e := event.(type) {
		case *redis.Message:
			if t := h.topic(e.Channel); t != nil && t.heard(e.Payload, &h.kept) {
				h.doubt(t)
			}
		case *redis.Subscription:
			if t := h.topic(e.Channel); t != nil && e.Kind == "subscribe" {
				h.confirm(t)
			}
		}
	}
}

func (h *Hub) topic(channel string) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[channel]
}

// confirm notes that Redis has taken a subscription, the first time or after
// the connection was lost: what was published before was not heard.
func (h *Hub) confirm(t *topic) {
	t.confirm()
	if t.chat != "" {
		h.doubt(t)
	}
}

// doubt has a chat's last id looked at.
func (h *Hub) doubt(t *topic) {
	h.mu.Lock()
	h.unsure[t] = struct{}{}
	h.mu.Unlock()
	h.hurry()
}

// join makes a stream a listener of a channel; chat is "" for a user's channel.
// The stream is marked once whatever is published from then on will be heard.
func (h *Hub) join(st *Stream, channel, chat string) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[channel]
	if t == nil {
		t = &topic{channel: channel, chat: chat, checked: time.Now()}
		h.topics[channel] = t
		h.changed[channel] = struct{}{}
		h.hurry()
	}
	t.add(st)
	return t
}

// leave ends it; a channel without listeners is not subscribed to any more.
func (h *Hub) leave(st *Stream, t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.remove(st, &h.kept) > 0 || h.topics[t.channel] != t {
		return
	}
	delete(h.topics, t.channel)
	delete(h.unsure, t)
	h.changed[t.channel] = struct{}{}
	h.hurry()
}

// subscribe brings the subscription in line with the topics. Only Run does so:
// what comes and goes in between can't overtake each other.
func (h *Hub) subscribe(ctx context.Context, sub *redis.PubSub, subscribed map[string]struct{}) {
	add, remove := h.changes(subscribed)
	ctx, cancel := context.WithTimeout(ctx, liveCall)
	defer cancel()
	var errs []error
	for len(add) > 0 {
		n := min(len(add), batchSize)
		errs = append(errs, sub.Subscribe(ctx, add[:n]...)) // after an error the client does it again by itself
		add = add[n:]
	}
	for len(remove) > 0 {
		n := min(len(remove), batchSize)
		errs = append(errs, sub.Unsubscribe(ctx, remove[:n]...)) // messages for nobody are ignored
		remove = remove[n:]
	}
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		h.log.Debug("subscribing to chats", "error", err)
	}
}

// changes lists what to subscribe to and what to leave.
func (h *Hub) changes(subscribed map[string]struct{}) (add, remove []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for channel := range h.changed {
		t := h.topics[channel]
		_, on := subscribed[channel]
		switch {
		case t != nil && !on:
			add = append(add, channel)
			subscribed[channel] = struct{}{}
		case t != nil: // it went and came again before anybody looked
			t.confirm()
			if t.chat != "" {
				h.unsure[t] = struct{}{}
			}
		case on:
			remove = append(remove, channel)
			delete(subscribed, channel)
		}
	}
	clear(h.changed)
	return add, remove
}

// tick finds the chats to compare and the streams whose chats to read again,
// and lets go of messages that every stream has had time for.
func (h *Hub) tick(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		switch {
		case t.chat == "" && now.Sub(t.checked) >= rereadEvery:
			t.checked = now
			t.mark()
		case t.chat != "" && now.Sub(t.checked) >= checkEvery:
			t.checked = now
			t.forget(&h.kept)
			h.unsure[t] = struct{}{}
		}
	}
}

// check looks at the last ids of the chats in doubt, in pipelines. What could
// not be read stays in doubt until the next tick.
func (h *Hub) check(ctx context.Context) {
	for {
		batch := h.doubtful()
		if len(batch) == 0 {
			return
		}
		ids := make([]string, len(batch))
		for i, t := range batch {
			ids[i] = t.chat
		}
		heads, err := h.chats.Heads(ctx, ids)
		if err != nil {
			h.log.Debug("comparing positions", "error", err)
			h.restore(batch)
			return
		}
		for i, t := range batch {
			if heads[i].Err == nil {
				t.settle(heads[i].Epoch, heads[i].LastID, &h.kept)
			}
		}
	}
}

// doubtful takes up to a batch of the chats in doubt. A doubt that comes while
// they are looked at is a new one.
func (h *Hub) doubtful() (batch []*topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.unsure {
		if len(batch) == batchSize {
			break
		}
		delete(h.unsure, t)
		batch = append(batch, t)
	}
	return batch
}

func (h *Hub) restore(batch []*topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range batch {
		if h.topics[t.channel] == t {
			h.unsure[t] = struct{}{}
		}
	}
}
