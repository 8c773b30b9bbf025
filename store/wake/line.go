package wake

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

const (
	// changeTime bounds the opening of a connection, and each change of its subscriptions.
	changeTime = time.Second
	// silentAfter is how long a connection may receive nothing until it is sent a PING, and how long the answer may take.
	silentAfter = 2 * time.Second
	// lookEvery is how often a connection is looked at.
	lookEvery = silentAfter / 4
	// againAfter is the pause before a connection is made again.
	againAfter = 250 * time.Millisecond
)

// Line is the single connection through which all waiters of one kind hear of changes. It is open only while
// somebody waits. It is safe for concurrent use.
type Line struct {
	client  redisdb.Client
	changes chan struct{} // has a value if changed has some

	mu      sync.Mutex
	running bool // a goroutine has the connection
	topics  map[string]*topic
	changed map[string]struct{} // channels of topics that may have to be subscribed to or left
}

// topic is one channel and its waiters.
type topic struct {
	asked   bool // the present connection was told to subscribe to it
	live    bool // Redis has confirmed the subscription
	waiters map[chan struct{}]struct{}
}

// NewLine makes a line over a client for pub/sub. It opens nothing.
func NewLine(client redisdb.Client) *Line {
	return &Line{client: client, changes: make(chan struct{}, 1), topics: map[string]*topic{}, changed: map[string]struct{}{}}
}

// Join subscribes a waiter to a channel. wake gets a value once the subscription is live: a
// waiter that looks after it misses no change. It gets another at each message, and after
// each reconnection, because a message may have been missed meanwhile. It also gets one each time that no connection can
// be made, or that one receives nothing: a waiter that looks then knows whether Redis is away. Leave must follow.
func (l *Line) Join(ctx context.Context, channel string) (wake chan struct{}) {
	wake = make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[channel]
	if t == nil {
		t = &topic{waiters: map[chan struct{}]struct{}{}}
		l.topics[channel] = t
	}
	t.waiters[wake] = struct{}{}
	switch {
	case t.live:
		wake <- struct{}{}
	case !t.asked:
		l.change(channel)
	}
	if !l.running {
		l.running = true
		go l.run(context.WithoutCancel(ctx))
	}
	return wake
}

// Leave removes a waiter. When the last waiter leaves, the connection is closed.
func (l *Line) Leave(channel string, wake chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[channel]
	if delete(t.waiters, wake); len(t.waiters) == 0 {
		l.change(channel)
	}
}

// change notes a channel that has a first waiter, or has lost its last one. It needs the lock.
func (l *Line) change(channel string) {
	l.changed[channel] = struct{}{}
	select {
	case l.changes <- struct{}{}:
	default:
	}
}

// run has one connection after the other until nobody waits.
func (l *Line) run(ctx context.Context) {
	for l.serve(ctx) && l.forget() {
		<-time.After(againAfter)
	}
}

// serve has one connection until nobody waits. lost: the connection was lost before.
func (l *Line) serve(ctx context.Context) (lost bool) {
	ctx, end := context.WithCancel(ctx)
	sub := redisdb.Subscribe(ctx, l.client)
	silence := NewSilence(sub, silentAfter)
	// In a Cluster a connection begins at any node while it has no channel, and each node gets all messages. So after one
	// that hangs another one is tried.
	if err := change(ctx, sub.Ping); err != nil {
		end()
		_ = sub.Close()
		return true
	}
	var receiving sync.WaitGroup
	receiving.Go(func() { l.receive(ctx, sub, silence) })
	defer receiving.Wait()
	defer func() {
		end()
		_ = sub.Close() // an error of closing has no effect
	}()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		add, remove, over := l.take()
		switch {
		case over:
			return false
		case len(add) > 0 && change(ctx, sub.Subscribe, add...) != nil:
			return true
		case len(remove) > 0:
			_ = change(ctx, sub.Unsubscribe, remove...) // if this fails, messages without a waiter are ignored
		}
		select {
		case <-l.changes:
		case <-look.C:
			if silence.Lasts(ctx) {
				return true
			}
		}
	}
}

// change sends a command over a connection, which is made if there is none.
func change(ctx context.Context, send func(context.Context, ...string) error, channels ...string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	return send(ctx, channels...)
}

// take takes the channels that have to be subscribed to or left. over: nobody waits, and no connection is needed.
func (l *Line) take() (add, remove []string, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for channel := range l.changed {
		t := l.topics[channel]
		switch {
		case t == nil:
		case len(t.waiters) == 0:
			if delete(l.topics, channel); t.asked {
				remove = append(remove, channel)
			}
		case !t.asked:
			t.asked = true
			add = append(add, channel)
		}
	}
	clear(l.changed)
	l.running = len(l.topics) > 0
	return add, remove, !l.running
}

// forget forgets what the lost connection had subscribed to, and lets all waiters look. It reports whether there are any.
func (l *Line) forget() (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for channel, t := range l.topics {
		if len(t.waiters) == 0 {
			delete(l.topics, channel)
			continue
		}
		t.asked, t.live = false, false
		l.changed[channel] = struct{}{}
		t.wake()
	}
	l.running = len(l.topics) > 0
	return l.running
}

// receive wakes waiters until ctx ends. If the connection breaks, go-redis makes another one and subscribes again, which may
// be one to a node that hangs. A message of an earlier subscription may wake a waiter needlessly, which does no harm.
func (l *Line) receive(ctx context.Context, sub redisdb.Subscription, silence *Silence) {
	for {
		event, err := sub.Receive(ctx)
		if ctx.Err() != nil {
			return
		}
		if refusal := redis.Error(nil); errors.As(err, &refusal) { // of a subscription or a PING: the connection lives
			silence.Hear()
			continue
		}
		if err != nil {
			select {
			case <-time.After(againAfter):
			case <-ctx.Done():
			}
			continue
		}
		silence.Hear()
		switch e := event.(type) {
		case *redis.Message:
			l.wake(e.Channel, false)
		case *redis.Subscription:
			l.wake(e.Channel, e.Kind == "subscribe")
		}
	}
}

// Await returns at a wake-up or after limit. If ctx ends first, the error is its cause.
func Await(ctx context.Context, wake <-chan struct{}, limit time.Duration) error {
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case <-wake:
		return nil
	case <-over.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Line) wake(channel string, live bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.topics[channel]; t != nil {
		t.live = t.live || live
		t.wake()
	}
}

// wake wakes all waiters. It needs the lock of the line.
func (t *topic) wake() {
	for wake := range t.waiters {
		select {
		case wake <- struct{}{}:
		default: // the waiter has a wake-up already
		}
	}
}

// Waiting is how many waiters of a channel Redis has confirmed.
func (l *Line) Waiting(channel string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.topics[channel]; t != nil && t.live {
		return len(t.waiters)
	}
	return 0
}
