package live

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
	"fanfare/store/wake"
)

const (
	// subscribeTimeout bounds the opening of a connection, and the subscribing to new channels.
	subscribeTimeout = 2 * time.Second
	// silentAfter is how long a feed may receive nothing until it is sent a PING, and how long the answer may take.
	silentAfter = 5 * time.Second
	// againAfter is the wait before the feed subscribes again to channels that were lost or
	// refused. In the meantime the map of a Cluster's slots is read again.
	againAfter = 250 * time.Millisecond
)

// feed is a connection for pub/sub: to any server that the client chooses, or to the master of a
// Cluster that has the slots of the channels.
type feed struct {
	sub              redisdb.Subscription
	node             redisdb.Client // the master, nil for any server
	sharded          bool           // the master knows SSUBSCRIBE; set before it is open
	opened, broken   atomic.Bool
	refusal, refused atomic.Bool // a subscription was refused; and it is time to ask again
	silence          *wake.Silence
	end              context.CancelFunc
}

// open makes a feed for a master, or for any server if the master is nil. The connection is opened
// in another goroutine, so that a server that hangs does not hold up Run.
func (s *subscriptions) open(ctx context.Context, node redisdb.Client) *feed {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &feed{node: node, end: cancel}
	if node == nil {
		f.sub = redisdb.Subscribe(ctx, s.client)
	} else {
		f.sub = redisdb.Subscribe(ctx, node)
	}
	f.silence = wake.NewSilence(f.sub, silentAfter)
	s.reading.Go(func() { s.serve(ctx, f) })
	return f
}

// serve opens the connection of a feed and dispatches messages until the feed is dropped
// or the connection lost.
func (s *subscriptions) serve(ctx context.Context, f *feed) {
	err := f.connect(ctx)
	if err == nil {
		f.opened.Store(true)
		s.hub.wakeRun()
		err = s.receive(ctx, f)
	}
	if ctx.Err() != nil {
		return
	}
	s.hub.log.Debug("a connection of pub/sub is lost", "error", err)
	s.hub.db.ReloadMap(ctx)
	redisdb.Sleep(ctx, againAfter)
	f.broken.Store(true)
	s.hub.wakeRun()
}

func (f *feed) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	if f.node != nil {
		known, err := f.node.Do(ctx, "command", "info", "ssubscribe").Slice()
		if err != nil {
			return err
		}
		f.sharded = len(known) == 1 && known[0] != nil
	}
	return f.sub.Ping(ctx)
}

// receive dispatches messages. It ends when the connection to a master breaks, because the client
// would subscribe again with one command for channels of several slots.
func (s *subscriptions) receive(ctx context.Context, f *feed) error {
	for {
		event, err := f.sub.Receive(ctx)
		var refusal redis.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			f.silence.Hear()
			s.dispatch(ctx, f, event)
		case errors.As(err, &refusal):
			f.silence.Hear()
			s.hub.log.Debug("subscribing to chats", "error", err)
			s.askAgain(ctx, f)
		case f.node != nil:
			return err
		default: // the client makes another one, and subscribes again
			redisdb.Sleep(ctx, againAfter)
		}
	}
}

// dispatch gives a message or a confirmation to its topic.
func (s *subscriptions) dispatch(ctx context.Context, f *feed, event any) {
	switch e := event.(type) {
	case *redis.Message:
		if t := s.hub.topic(e.Channel); t != nil && t.receive(e.Payload, &s.hub.kept) {
			s.hub.markStale(t)
		}
	case *redis.Subscription:
		t := s.hub.topic(e.Channel)
		switch {
		case t == nil:
		case e.Kind == "subscribe" || e.Kind == "ssubscribe":
			s.hub.confirm(t, f)
		case t.lose(f): // another master has the slot now
			s.askAgain(ctx, f)
		}
	}
}

// askAgain lets the hub soon subscribe again to channels that a feed did not confirm, or whose
// subscription the server ended.
func (s *subscriptions) askAgain(ctx context.Context, f *feed) {
	if f.refusal.Swap(true) {
		return
	}
	s.hub.db.ReloadMap(ctx)
	time.AfterFunc(againAfter, func() {
		f.refusal.Store(false)
		f.refused.Store(true)
		s.hub.wakeRun()
	})
}

func (f *feed) subscribe(ctx context.Context, channels []string) error {
	if f.sharded {
		return f.sub.SSubscribe(ctx, channels...)
	}
	return f.sub.Subscribe(ctx, channels...)
}

func (f *feed) unsubscribe(ctx context.Context, channels []string) error {
	if f.sharded {
		return f.sub.SUnsubscribe(ctx, channels...)
	}
	return f.sub.Unsubscribe(ctx, channels...)
}
