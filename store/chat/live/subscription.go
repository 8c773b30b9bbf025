package live

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// receiveBuffer is how many messages of Redis may wait to be dispatched.
	receiveBuffer = 4096
	// subscribeTimeout bounds the subscribing to new channels.
	subscribeTimeout = 2 * time.Second
	// deafAfter is how long a subscription may receive nothing until it is asked whether
	// it still does, and how long the answer may take.
	deafAfter = 5 * time.Second
)

// subscription is the connection of pub/sub for all topics. The client of Redis makes it
// again when it breaks, but waits for ever on one that is open and answers nothing: of a
// server that hangs, while on a Cluster another one would serve.
type subscription struct {
	sub        *redis.PubSub
	on         map[string]struct{} // the channels; only Run uses it
	began      time.Time
	received   atomic.Int64  // when something last came, since began
	asked      time.Duration // when it was asked, since began; only Run uses it
	dispatched sync.WaitGroup
}

// newSubscription opens a subscription to all topics; syncSubscription subscribes.
func (h *Hub) newSubscription(ctx context.Context, client redis.UniversalClient) *subscription {
	// It makes its connections by itself, also after ctx's end.
	s := &subscription{sub: client.Subscribe(context.WithoutCancel(ctx)), on: map[string]struct{}{}, began: time.Now()}
	events := s.sub.ChannelWithSubscriptions(redis.WithChannelSize(receiveBuffer))
	s.dispatched.Go(func() { h.dispatch(s, events) })
	h.mu.Lock()
	defer h.mu.Unlock()
	for channel := range h.topics {
		h.changed[channel] = struct{}{}
	}
	return s
}

// close ends the subscription and waits until all it received is dispatched.
func (s *subscription) close() {
	s.sub.Close()
	s.dispatched.Wait()
}

// isDeaf tells that nothing came for long, nor an answer when it was asked; and asks.
func (s *subscription) isDeaf(ctx context.Context, now time.Time) bool {
	at, received := now.Sub(s.began), time.Duration(s.received.Load())
	switch {
	case at-received < deafAfter:
		return false
	case s.asked > received:
		return at-s.asked >= deafAfter
	}
	s.asked = at
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	_ = s.sub.Subscribe(ctx, probeChannel) // an error is no answer
	return false
}

// dispatch hands what is received to the topics until the subscription is
// closed.
func (h *Hub) dispatch(s *subscription, events <-chan any) {
	for event := range events {
		s.received.Store(int64(time.Since(s.began)))
		switch e := event.(type) {
		case *redis.Message:
			if t := h.topic(e.Channel); t != nil && t.receive(e.Payload, &h.kept) {
				h.markStale(t)
			}
		case *redis.Subscription:
			if t := h.topic(e.Channel); t != nil && e.Kind == "subscribe" {
				h.confirm(t)
			}
		}
	}
}

// syncSubscription brings the subscription in line with the topics. Only Run
// calls it, so that subscribing to a channel and leaving it keep their order.
func (h *Hub) syncSubscription(ctx context.Context, s *subscription) {
	add, remove := h.changes(s.on)
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	var errs []error
	for batch := range slices.Chunk(add, batchSize) {
		err := s.sub.Subscribe(ctx, batch...)
		if errs = append(errs, err); err != nil { // the client may have another connection, and not subscribed there
			h.again(s, batch)
		}
	}
	for batch := range slices.Chunk(remove, batchSize) {
		errs = append(errs, s.sub.Unsubscribe(ctx, batch...)) // messages without a topic are ignored
	}
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		h.log.Debug("subscribing to chats", "error", err)
	}
}

// again leaves channels to the next call of syncSubscription.
func (h *Hub) again(s *subscription, channels []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, channel := range channels {
		delete(s.on, channel)
		h.changed[channel] = struct{}{}
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
		case t != nil: // it was left and wanted again since the last call
			t.confirm()
			if t.chat != "" {
				h.stale[t] = struct{}{}
			}
		case on:
			remove = append(remove, channel)
			delete(subscribed, channel)
		}
	}
	clear(h.changed)
	return add, remove
}
