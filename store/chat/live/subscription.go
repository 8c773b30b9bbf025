package live

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"fanfare/store/redisdb"
)

// subscriptions has the channels of all topics and the feeds that receive them. A channel with a
// tag is received from the master of its slot, because in a Cluster its messages may reach only
// that master. One command has channels of one slot only. Only Run uses subscriptions, apart from
// the goroutine of each feed.
type subscriptions struct {
	hub     *Hub
	client  redisdb.Client
	on      map[string]*feed          // by channel
	feeds   map[redisdb.Client]*feed  // by node
	homes   map[string]redisdb.Client // by tag: the master of its slot
	reading sync.WaitGroup
}

// newSubscriptions begins without subscriptions; sync subscribes to all topics.
func (h *Hub) newSubscriptions(client redisdb.Client) *subscriptions {
	return &subscriptions{
		hub: h, client: client,
		on: map[string]*feed{}, feeds: map[redisdb.Client]*feed{}, homes: map[string]redisdb.Client{},
	}
}

// close ends all feeds and waits until they have dispatched the messages received.
func (s *subscriptions) close() {
	for node := range s.feeds {
		s.drop(node)
	}
	s.reading.Wait()
}

// tagOf is a channel up to the end of its tag; "" if it has no tag.
func tagOf(channel string) string { return channel[:strings.IndexByte(channel, '}')+1] }

// place is the feed and the slot of one command.
type place struct {
	feed *feed
	tag  string
}

// sync brings the subscriptions in line with the topics. Only Run calls it, so that
// subscribing to a channel and leaving it keep their order.
func (s *subscriptions) sync(ctx context.Context) {
	s.restore()
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	add, remove := s.changes(ctx)
	var errs []error
	for at, channels := range add {
		for batch := range slices.Chunk(channels, batchSize) {
			err := at.feed.subscribe(ctx, batch)
			if errs = append(errs, err); err != nil { // the client may have a new connection without the subscription
				for _, channel := range batch {
					delete(s.on, channel)
					s.hub.change(channel)
				}
			}
		}
	}
	for at, channels := range remove {
		for batch := range slices.Chunk(channels, batchSize) {
			errs = append(errs, at.feed.unsubscribe(ctx, batch)) // messages without a topic are ignored
		}
	}
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		s.hub.log.Debug("subscribing to chats", "error", err)
	}
}

// changes lists the channels to subscribe to and to unsubscribe from. A channel whose feed is not
// open yet waits for the next call.
func (s *subscriptions) changes(ctx context.Context) (add, remove map[place][]string) {
	add, remove = map[place][]string{}, map[place][]string{}
	for channel, t := range s.hub.takeChanged() {
		f, tag := s.on[channel], tagOf(channel)
		switch {
		case t != nil && f != nil: // it was left and needed again since the last call
			s.hub.confirm(t, f)
		case t != nil:
			if f = s.home(ctx, tag); f == nil || !f.opened.Load() {
				s.hub.change(channel)
				continue
			}
			s.on[channel] = f
			add[place{f, tag}] = append(add[place{f, tag}], channel)
		case f != nil:
			delete(s.on, channel)
			remove[place{f, tag}] = append(remove[place{f, tag}], channel)
		}
	}
	return add, remove
}

// home is the feed for channels with a tag; nil while their master is not known.
func (s *subscriptions) home(ctx context.Context, tag string) *feed {
	node, known := s.homes[tag]
	if !known {
		if node = s.master(ctx, tag); node == nil && tag != "" {
			return nil
		}
		s.homes[tag] = node
	}
	f := s.feeds[node]
	if f == nil {
		f = s.open(ctx, node)
		s.feeds[node] = f
	}
	return f
}

// master is the master that has the slot of a tag; nil without a tag, or if it is not known.
func (s *subscriptions) master(ctx context.Context, tag string) redisdb.Client {
	if tag == "" || !s.hub.db.Cluster() {
		return nil
	}
	node, _ := s.hub.db.MasterOf(ctx, tag) // an error counts as not known
	return node
}

// check finds feeds that receive nothing, and slots that have moved to another master.
func (s *subscriptions) check(ctx context.Context) {
	for _, f := range s.feeds {
		if f.opened.Load() && f.silence.Lasts(ctx) {
			s.hub.log.Debug("a new subscription, as the last one receives nothing")
			f.broken.Store(true)
		}
	}
	moved, used := map[string]bool{}, map[redisdb.Client]bool{nil: true}
	for tag, was := range s.homes {
		if node := s.master(ctx, tag); node != nil && node != was {
			moved[tag], s.homes[tag] = true, node
		}
		used[s.homes[tag]] = true
	}
	if len(moved) == 0 {
		return
	}
	s.redo(func(channel string, _ *feed) bool { return moved[tagOf(channel)] })
	for node := range s.feeds {
		if !used[node] {
			s.drop(node)
		}
	}
}

// restore lets the hub subscribe again to channels whose feed is lost, or whose subscription was
// refused or ended. In the latter case it does so for all channels of the slot, because the slot
// may have another master now.
func (s *subscriptions) restore() {
	for node, f := range s.feeds {
		switch {
		case f.broken.Load():
			s.drop(node)
			maps.DeleteFunc(s.homes, func(_ string, home redisdb.Client) bool { return home == node })
			s.redo(func(_ string, of *feed) bool { return of == f })
		case f.refused.Swap(false):
			gone := map[string]bool{}
			for channel, of := range s.on {
				if t := s.hub.topic(channel); of == f && t != nil && !t.isOn(f) {
					gone[tagOf(channel)] = true
				}
			}
			maps.DeleteFunc(s.homes, func(tag string, _ redisdb.Client) bool { return gone[tag] })
			s.redo(func(channel string, _ *feed) bool { return gone[tagOf(channel)] })
		}
	}
}

// drop ends a feed. Its goroutine may last a little longer, and does nothing.
func (s *subscriptions) drop(node redisdb.Client) {
	f := s.feeds[node]
	delete(s.feeds, node)
	f.end()
	_ = f.sub.Close()
}

// redo lets the next call of changes subscribe to channels again.
func (s *subscriptions) redo(which func(channel string, of *feed) bool) {
	for channel, f := range s.on {
		if which(channel, f) {
			delete(s.on, channel)
			s.hub.change(channel)
		}
	}
}

// change records a channel that has to be subscribed to or left.
func (h *Hub) change(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed[channel] = struct{}{}
}

// takeChanged takes the channels that have changed, with their topics. The topic is nil if nobody
// listens to the channel.
func (h *Hub) takeChanged() map[string]*topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := make(map[string]*topic, len(h.changed))
	for channel := range h.changed {
		changed[channel] = h.topics[channel]
	}
	clear(h.changed)
	return changed
}
