package lock

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// subscribeTime bounds the beginning and the end of a subscription. A caller's shorter deadline would close the
// connection of all.
const subscribeTime = time.Second

// subscription is the single connection through which all waiters of a Locker are told of
// hand-overs. It is open only while somebody waits.
type subscription struct {
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

// join subscribes a waiter to a channel. wake gets a value once the subscription is live: a
// waiter that tries after it misses no hand-over. It gets another at each hand-over, and after
// each reconnection, because a hand-over may have been missed meanwhile.
func (s *subscription) join(ctx context.Context, channel string) (wake chan struct{}, err error) {
	wake = make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sub == nil {
		s.sub = s.open(context.WithoutCancel(ctx))
		s.topics = map[string]*topic{}
		go s.dispatch(s.sub.ChannelWithSubscriptions(redis.WithChannelSize(1024)))
	}
	t := s.topics[channel]
	if t == nil {
		t = &topic{waiters: map[chan struct{}]struct{}{}}
		s.topics[channel] = t
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), subscribeTime)
		defer cancel()
		err = s.sub.Subscribe(brief, channel)
	} else if t.live {
		wake <- struct{}{}
	}
	t.waiters[wake] = struct{}{}
	return wake, err
}

// leave removes a waiter. When the last waiter leaves, the connection is closed.
func (s *subscription) leave(ctx context.Context, channel string, wake chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
	delete(t.waiters, wake)
	if len(t.waiters) > 0 {
		return
	}
	delete(s.topics, channel)
	if len(s.topics) == 0 {
		_ = s.sub.Close() // an error of closing has no effect
		s.sub = nil
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), subscribeTime)
	defer cancel()
	_ = s.sub.Unsubscribe(ctx, channel) // if this fails, messages without a waiter are ignored
}

// dispatch wakes waiters until its connection is closed for good. A message of an earlier
// connection or subscription may wake a waiter needlessly, which does no harm.
func (s *subscription) dispatch(events <-chan any) {
	for event := range events {
		switch e := event.(type) {
		case *redis.Message:
			s.wake(e.Channel, false)
		case *redis.Subscription:
			s.wake(e.Channel, e.Kind == "subscribe")
		}
	}
}

func (s *subscription) wake(channel string, live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
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
