package live

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"fanfare/store/chat"
	"fanfare/store/redisdb"
)

const (
	// checkEvery is how often a chat's last id in memory is compared with the log, because pub/sub
	// may lose a message.
	checkEvery = 15 * time.Second
	// rereadEvery is how often an open stream's list of chats is read again, for the same reason.
	// Normally joins and leaves are received at once.
	rereadEvery = time.Minute
	// tickEvery is how often the hub does work that is due, and repeats work that failed.
	tickEvery = time.Second
	// batchSize is the largest size of a pipeline, and of the channels of one SUBSCRIBE.
	batchSize = 500
)

// Hub has all streams and long polls of one process. They share one connection for pub/sub (on a
// Cluster another one for each master), a read of the last ids of their chats every 15 s, a
// pipeline that renews presence, and the newest messages of each chat in memory. It is safe for
// concurrent use. Run must be running.
type Hub struct {
	chats *chat.Store
	db    *redisdb.DB
	log   *slog.Logger
	wake  chan struct{} // Run has something to do at once
	kept  budget        // bytes of messages in all topics

	presence *presence

	mu      sync.Mutex
	topics  map[string]*topic   // by channel
	changed map[string]struct{} // channels that Run has to subscribe to or leave
	stale   map[*topic]struct{} // chats whose last id must be read
}

// New makes the hub of a store of chats on the same Redis; log may be nil. It
// starts nothing.
func New(chats *chat.Store, db *redisdb.DB, log *slog.Logger) *Hub {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Hub{
		chats: chats, db: db, log: log, wake: make(chan struct{}, 1),
		topics: map[string]*topic{}, changed: map[string]struct{}{}, stale: map[*topic]struct{}{},
		presence: &presence{db: db, log: log, owner: rand.Text(), users: map[string]*userStreams{}},
	}
}

// Run serves the open streams until ctx ends: it subscribes, dispatches what is
// published, compares last ids, and renews presence.
func (h *Hub) Run(ctx context.Context) error {
	s := h.newSubscriptions(h.db.Blocking())
	defer s.close()
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.wake:
		case now := <-tick.C:
			h.tick(now)
			h.presence.renew(ctx, now)
			s.check(ctx)
		}
		s.sync(ctx)
		h.readHeads(ctx)
	}
}

// wakeRun lets Run do its work at once.
func (h *Hub) wakeRun() {
	select {
	case h.wake <- struct{}{}:
	default: // Run has been woken already
	}
}

func (h *Hub) topic(channel string) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[channel]
}

// confirm records that Redis has accepted a subscription, for the first time or after the
// connection was lost. Messages that were published before were not received.
func (h *Hub) confirm(t *topic, f *feed) {
	t.confirm(f)
	if t.chat != "" {
		h.markStale(t)
	}
}

// markStale lets the hub read a chat's last id.
func (h *Hub) markStale(t *topic) {
	h.mu.Lock()
	h.stale[t] = struct{}{}
	h.mu.Unlock()
	h.wakeRun()
}

// subscribe makes a stream a listener of a channel. chat is "" for a user's channel. The stream is
// marked as soon as everything that is published from then on will be received.
func (h *Hub) subscribe(st *Stream, channel, chat string) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[channel]
	if t == nil {
		t = &topic{channel: channel, chat: chat, checked: time.Now(), listeners: map[*Stream]struct{}{}}
		h.topics[channel] = t
		h.changed[channel] = struct{}{}
		h.wakeRun()
	}
	t.add(st)
	return t
}

// unsubscribe removes the listener. When the last one is removed, the hub unsubscribes from the
// channel.
func (h *Hub) unsubscribe(st *Stream, t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.remove(st, &h.kept) > 0 || h.topics[t.channel] != t {
		return
	}
	delete(h.topics, t.channel)
	delete(h.stale, t)
	h.changed[t.channel] = struct{}{}
	h.wakeRun()
}

// tick finds chats whose last id has to be compared and streams whose list of chats has to be read
// again. It also drops messages that every stream has had time to read.
func (h *Hub) tick(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		t.tellLater(now)
		switch {
		case t.chat == "" && now.Sub(t.checked) >= rereadEvery:
			t.checked = now
			t.mark()
		case t.chat != "" && now.Sub(t.checked) >= checkEvery:
			t.checked = now
			t.forget(&h.kept)
			h.stale[t] = struct{}{}
		}
	}
}

// readHeads reads the last ids of the stale chats, in pipelines. Chats that could not be read stay
// stale until the next tick.
func (h *Hub) readHeads(ctx context.Context) {
	var unread []*topic
	defer func() { h.restoreStale(unread) }()
	for {
		batch := h.takeStale()
		if len(batch) == 0 {
			return
		}
		ids := make([]string, len(batch))
		for i, t := range batch {
			ids[i] = t.chat
		}
		heads, err := h.chats.Heads(ctx, ids)
		if err != nil {
			h.log.Debug("comparing last ids", "error", err)
			h.restoreStale(batch)
			return
		}
		for i, t := range batch {
			if heads[i].Err == nil {
				t.update(heads[i].Epoch, heads[i].LastID, &h.kept)
			} else {
				unread = append(unread, t)
			}
		}
	}
}

// takeStale takes up to a batch of the stale chats. A chat that becomes stale again during the read
// is read again.
func (h *Hub) takeStale() (batch []*topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.stale {
		if len(batch) == batchSize {
			break
		}
		delete(h.stale, t)
		batch = append(batch, t)
	}
	return batch
}

func (h *Hub) restoreStale(batch []*topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range batch {
		if h.topics[t.channel] == t {
			h.stale[t] = struct{}{}
		}
	}
}
