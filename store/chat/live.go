package chat

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

const (
	// checkEvery is how often a chat's last id is compared with what was heard:
	// pub/sub only hints, and a hint may get lost.
	checkEvery = 15 * time.Second
	// rereadEvery is how often an open stream's list of chats is read again for
	// the same reason. Joins and leaves are heard of at once.
	rereadEvery = time.Minute
	// tickEvery is how often Live looks what is due, and tries again what failed.
	tickEvery = time.Second
	// batchSize bounds one pipeline, and the channels of one SUBSCRIBE.
	batchSize = 500
	// channelSize is how many messages of Redis may wait for being handed out.
	channelSize = 4096
	// liveCall bounds the subscribing of new channels.
	liveCall = 2 * time.Second
)

// Live is one process's part in the live chat: streams and long polls. All of
// them share one connection of pub/sub, one look at the last ids of their
// chats every 15 s, one pipeline that says who is live, and the newest messages
// of each chat in memory. It is safe for concurrent use; Run must run.
type Live struct {
	store *Store
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

// NewLive makes the live part of a Store. It starts nothing.
func NewLive(s *Store, db *redisdb.DB, log *slog.Logger) *Live {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Live{
		store: s, db: db, log: log, owner: rand.Text(), kick: make(chan struct{}, 1),
		topics: map[string]*topic{}, changed: map[string]struct{}{}, unsure: map[*topic]struct{}{}, present: map[string]*visit{},
	}
}

// Run serves the open streams until ctx ends: it subscribes, hands out what is
// published, compares positions, and renews presence.
func (l *Live) Run(ctx context.Context) error {
	// The subscription makes its connections by itself, also after ctx's end.
	sub := l.db.Blocking().Subscribe(context.WithoutCancel(ctx))
	var heard sync.WaitGroup
	heard.Go(func() { l.dispatch(sub.ChannelWithSubscriptions(redis.WithChannelSize(channelSize))) })
	defer heard.Wait()
	defer sub.Close()

	subscribed := map[string]struct{}{}
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.kick:
		case now := <-tick.C:
			l.tick(now)
			l.renew(ctx, now)
		}
		l.subscribe(ctx, sub, subscribed)
		l.check(ctx)
	}
}

// hurry makes Run look at once.
func (l *Live) hurry() {
	select {
	case l.kick <- struct{}{}:
	default: // it has not looked since the last time
	}
}

// dispatch hands out what is heard until the subscription is closed.
func (l *Live) dispatch(events <-chan any) {
	for event := range events {
		switch e := event.(type) {
		case *redis.Message:
			if t := l.topic(e.Channel); t != nil && t.heard(e.Payload, &l.kept) {
				l.doubt(t)
			}
		case *redis.Subscription:
			if t := l.topic(e.Channel); t != nil && e.Kind == "subscribe" {
				l.confirm(t)
			}
		}
	}
}

func (l *Live) topic(channel string) *topic {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topics[channel]
}

// confirm notes that Redis has taken a subscription, the first time or after
// the connection was lost: what was published before was not heard.
func (l *Live) confirm(t *topic) {
	t.confirm()
	if t.chat != "" {
		l.doubt(t)
	}
}

// doubt has a chat's last id looked at.
func (l *Live) doubt(t *topic) {
	l.mu.Lock()
	l.unsure[t] = struct{}{}
	l.mu.Unlock()
	l.hurry()
}

// join makes a stream a listener of a channel; chat is "" for a user's channel.
// The stream is marked once whatever is published from then on will be heard.
func (l *Live) join(st *Stream, channel, chat string) *topic {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[channel]
	if t == nil {
		t = &topic{channel: channel, chat: chat, checked: time.Now()}
		l.topics[channel] = t
		l.changed[channel] = struct{}{}
		l.hurry()
	}
	t.add(st)
	return t
}

// leave ends it; a channel without listeners is not subscribed to any more.
func (l *Live) leave(st *Stream, t *topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.remove(st, &l.kept) > 0 || l.topics[t.channel] != t {
		return
	}
	delete(l.topics, t.channel)
	delete(l.unsure, t)
	l.changed[t.channel] = struct{}{}
	l.hurry()
}

// subscribe brings the subscription in line with the topics. Only Run does so:
// what comes and goes in between can't overtake each other.
func (l *Live) subscribe(ctx context.Context, sub *redis.PubSub, subscribed map[string]struct{}) {
	add, remove := l.changes(subscribed)
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
		l.log.Debug("subscribing to chats", "error", err)
	}
}

// changes lists what to subscribe to and what to leave.
func (l *Live) changes(subscribed map[string]struct{}) (add, remove []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for channel := range l.changed {
		t := l.topics[channel]
		_, on := subscribed[channel]
		switch {
		case t != nil && !on:
			add = append(add, channel)
			subscribed[channel] = struct{}{}
		case t != nil: // it went and came again before anybody looked
			t.confirm()
			if t.chat != "" {
				l.unsure[t] = struct{}{}
			}
		case on:
			remove = append(remove, channel)
			delete(subscribed, channel)
		}
	}
	clear(l.changed)
	return add, remove
}

// tick finds the chats to compare and the streams whose chats to read again,
// and lets go of messages that every stream has had time for.
func (l *Live) tick(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.topics {
		switch {
		case t.chat == "" && now.Sub(t.checked) >= rereadEvery:
			t.checked = now
			t.mark()
		case t.chat != "" && now.Sub(t.checked) >= checkEvery:
			t.checked = now
			t.forget(&l.kept)
			l.unsure[t] = struct{}{}
		}
	}
}

// check looks at the last ids of the chats in doubt, in pipelines. What could
// not be read stays in doubt until the next tick.
func (l *Live) check(ctx context.Context) {
	for {
		batch := l.doubtful()
		if len(batch) == 0 {
			return
		}
		cmds, heads := make([]redis.Cmder, len(batch)), make([]*redis.SliceCmd, len(batch))
		for i, t := range batch {
			heads[i] = redis.NewSliceCmd(ctx, "hmget", metaKey(t.chat), fieldEpoch, fieldLast)
			cmds[i] = heads[i]
		}
		if err := l.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
			l.log.Debug("comparing positions", "error", err)
			l.restore(batch)
			return
		}
		for i, t := range batch {
			if epoch, last, err := readHead(heads[i]); err == nil {
				t.settle(epoch, last, &l.kept)
			}
		}
	}
}

// doubtful takes up to a batch of the chats in doubt. A doubt that comes while
// they are looked at is a new one.
func (l *Live) doubtful() (batch []*topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t := range l.unsure {
		if len(batch) == batchSize {
			break
		}
		delete(l.unsure, t)
		batch = append(batch, t)
	}
	return batch
}

func (l *Live) restore(batch []*topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range batch {
		if l.topics[t.channel] == t {
			l.unsure[t] = struct{}{}
		}
	}
}
