package live

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"fanfare/store/chat"
	"fanfare/store/redisdb"
)

const (
	// checkEvery is how often a chat's last id in memory is compared with the
	// log's: pub/sub may lose a message.
	checkEvery = 15 * time.Second
	// rereadEvery is how often an open stream's list of chats is read again for
	// the same reason. Joins and leaves are received at once.
	rereadEvery = time.Minute
	// tickEvery is how often the hub finds what is due, and tries again what
	// failed.
	tickEvery = time.Second
	// batchSize bounds one pipeline, and the channels of one SUBSCRIBE.
	batchSize = 500
)

// Hub is all streams and long polls of one process. They share one connection
// of pub/sub, on a Cluster one more for each master; one read of the last ids of
// their chats every 15 s; one pipeline that renews presence; and the newest messages
// of each chat in memory. It is safe for concurrent use; Run must run.
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
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
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
			s.check(ctx, now)
		}
		s.sync(ctx)
		h.readHeads(ctx)
	}
}

// wakeRun has Run go through its work at once.
func (h *Hub) wakeRun() {
	select {
	case h.wake <- struct{}{}:
	default: // it is woken already
	}
}

func (h *Hub) topic(channel string) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[channel]
}

// confirm notes that Redis has taken a subscription, for the first time or after
// the connection was lost: messages published before were not received.
func (h *Hub) confirm(t *topic, f *feed) {
	t.confirm(f)
	if t.chat != "" {
		h.markStale(t)
	}
}

// markStale has a chat's last id read.
func (h *Hub) markStale(t *topic) {
	h.mu.Lock()
	h.stale[t] = struct{}{}
	h.mu.Unlock()
	h.wakeRun()
}

// subscribe makes a stream a listener of a channel; chat is "" for a user's
// channel. The stream is marked once everything published from then on will be
// received.
func (h *Hub) subscribe(st *Stream, channel, chat string) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[channel]
	if t == nil {
		t = &topic{channel: channel, chat: chat, checked: time.Now()}
		h.topics[channel] = t
		h.changed[channel] = struct{}{}
		h.wakeRun()
	}
	t.add(st)
	return t
}

// unsubscribe ends that; with the last listener the channel is left.
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

// tick finds the chats to compare and the streams whose chats to read again, and
// drops messages that every stream has had time for.
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
			h.stale[t] = struct{}{}
		}
	}
}

// readHeads reads the last ids of the stale chats, in pipelines. What could not
// be read stays stale until the next tick.
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

// takeStale takes up to a batch of the stale chats. One that becomes stale again
// while it is read is read again.
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
