package wake

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// subscribeTime bounds the beginning and the end of a subscription. A caller's shorter deadline would close the
// connection of all.
const subscribeTime = time.Second

// Line is the single connection through which all waiters of one kind hear of changes. It is open only while
// somebody waits. It is safe for concurrent use.
type Line struct {
	open func(ctx context.Context) *redis.PubSub

	mu     sync.Mutex
	sub    *redis.PubSub // nil while nobody waits
	topics map[string]*topic
}

// topic is one channel and its waiters.
type topic struct {
	live    bool // Redis has confirmed the subscription
	waiters map[chan struct{}]struct{}
}

// NewLine makes a line; open opens its connection.
func NewLine(open func(context.Context) *redis.PubSub) *Line { return &Line{open: open} }

// Join subscribes a waiter to a channel. wake gets a value once the subscription is live: a
// waiter that looks after it misses no change. It gets another at each message, and after
// each reconnection, because a message may have been missed meanwhile. Leave must follow, also after an error.
func (l *Line) Join(ctx context.Context, channel string) (wake chan struct{}, err error) {
	wake = make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sub == nil {
		l.sub = l.open(context.WithoutCancel(ctx))
		l.topics = map[string]*topic{}
		go l.dispatch(l.sub.ChannelWithSubscriptions(redis.WithChannelSize(1024)))
	}
	t := l.topics[channel]
	if t == nil {
		t = &topic{waiters: map[chan struct{}]struct{}{}}
		l.topics[channel] = t
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), subscribeTime)
		defer cancel()
		err = l.sub.Subscribe(brief, channel)
	} else if t.live {
		wake <- struct{}{}
	}
	t.waiters[wake] = struct{}{}
	return wake, err
}

// Leave removes a waiter. When the last waiter leaves, the connection is closed.
func (l *Line) Leave(ctx context.Context, channel string, wake chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[channel]
	delete(t.waiters, wake)
	if len(t.waiters) > 0 {
		return
	}
	delete(l.topics, channel)
	if len(l.topics) == 0 {
		_ = l.sub.Close() // an error of closing has no effect
		l.sub = nil
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), subscribeTime)
	defer cancel()
	_ = l.sub.Unsubscribe(ctx, channel) // if this fails, messages without a waiter are ignored
}

// dispatch wakes waiters until its connection is closed for good. A message of an earlier
// connection or subscription may wake a waiter needlessly, which does no harm.
func (l *Line) dispatch(events <-chan any) {
	for event := range events {
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
	t := l.topics[channel]
	if t == nil {
		return
	}
	t.live = t.live || live
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
