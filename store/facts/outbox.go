package facts

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
)

// Outbox is where the steps of a slot leave facts for lanes of other slots.
type Outbox struct {
	// Name is what lanes know it by: they remember the last id that they got from it.
	Name string
	// Key is the key of its stream.
	Key string
	// Type is the only type of the facts that are left in it; "": there are several. While facts of the type are not told, the
	// outbox is seldom looked at.
	Type string

	queue *queue.Queue // the queue with the jobs and dead letters that the facts are about; nil: they are about others
	shard int
	// together says that all of its facts go to the lane of its name. Each lane remembers every outbox that it got facts from, so
	// the facts of an outbox that comes and goes should not be spread over all lanes.
	together bool
}

// OutboxOfSlot is an outbox whose facts all go to one lane, in which they keep their order, also between keys.
func OutboxOfSlot(name, key string) Outbox { return Outbox{Name: name, Key: key, together: true} }

// laneOf is the lane to which a fact about a key goes from an outbox.
func (s *Store) laneOf(o Outbox, key string) int {
	if o.together {
		key = o.Name
	}
	return s.o.Events.LaneOf(key)
}

// OutboxOf is the outbox of a shard of a queue.
func OutboxOf(q *queue.Queue, shard int) Outbox {
	return Outbox{Name: q.Name() + "." + strconv.Itoa(shard), Key: outboxKey(q, shard), queue: q, shard: shard}
}

// OutboxesOf are the outboxes of all shards of some queues.
func OutboxesOf(queues ...*queue.Queue) (all []Outbox) {
	for _, q := range queues {
		for n := range q.Shards() {
			all = append(all, OutboxOf(q, n))
		}
	}
	return all
}

// The types of entries that are no facts themselves (lua/part_facts.lua of store/queue/shard).
const (
	noteEnded = ""     // the key is that of an event, or of a group of its notifications, which may be over
	noteDead  = "dead" // the key is the id of a dead letter, which the data describes
)

// entry is one entry of an outbox.
type entry struct {
	box                    Outbox
	id, typ, key, at, data string
}

// left is what is told of one entry: facts of one lane.
type left struct {
	entry
	lane  int
	facts []fact
}

type fact struct{ typ, key, data string }

// pageSize is how many entries of an outbox are read at once.
const pageSize = 200

// readOutboxes reads the next entries of some outboxes, behind the ids of after, in one pipeline. The entries of an outbox come
// together and in their order. An outbox that cannot be read has none, and the error is its own.
func (s *Store) readOutboxes(ctx context.Context, boxes []Outbox, after map[Outbox]string) (found map[Outbox][]entry, err error) {
	cmds := make([]redis.Cmder, len(boxes))
	for i, o := range boxes {
		from := "-"
		if id := after[o]; id != "" {
			from = "(" + id
		}
		cmds[i] = redis.NewXMessageSliceCmd(ctx, "xrange", o.Key, from, "+", "COUNT", pageSize)
	}
	_ = s.o.DB.Pipeline(ctx, redisdb.Read, cmds...) // each command has its error
	found = map[Outbox][]entry{}
	for i, cmd := range cmds {
		messages, failed := cmd.(*redis.XMessageSliceCmd).Result()
		if failed != nil {
			err = fmt.Errorf("read the facts that %s has left: %w", boxes[i].Name, s.o.DB.Err(failed, redisdb.Read))
			continue
		}
		for _, m := range messages {
			text := func(name string) string { return redisdb.Text(m.Values[name]) }
			found[boxes[i]] = append(found[boxes[i]], entry{boxes[i], m.ID, text("t"), text("k"), text("a"), text("d")})
		}
	}
	return found, err
}

// forget deletes entries of outboxes.
func (s *Store) forget(ctx context.Context, gone map[Outbox][]string) error {
	var cmds []redis.Cmder
	for o, ids := range gone {
		cmds = appendDelete(ctx, cmds, o.Key, ids)
	}
	if len(cmds) == 0 {
		return nil
	}
	if err := s.o.DB.Pipeline(ctx, redisdb.Write, cmds...); err != nil {
		return fmt.Errorf("forget facts that were moved: %w", err)
	}
	return redisdb.FirstError(cmds)
}

// trimOutboxes drops the oldest facts of outboxes that have too many, after some of them could not be moved, or more than a round moves
// were there.
func (s *Store) trimOutboxes(ctx context.Context, boxes []Outbox) error {
	var cmds []redis.Cmder
	for _, o := range boxes {
		cmds = append(cmds, redis.NewIntCmd(ctx, "xtrim", o.Key, "maxlen", "~", s.o.Most, "limit", trimStep))
	}
	_ = s.o.DB.Pipeline(ctx, redisdb.Write, cmds...) // each command has its error
	return redisdb.FirstError(cmds)
}

// outboxEnds are the ids of the last entries of outboxes.
func (s *Store) outboxEnds(ctx context.Context, boxes []Outbox) (map[Outbox]string, error) {
	cmds, ends := make([]redis.Cmder, len(boxes)), map[Outbox]string{}
	for i, o := range boxes {
		cmds[i] = redis.NewXMessageSliceCmd(ctx, "xrevrange", o.Key, "+", "-", "COUNT", 1)
	}
	if err := s.o.DB.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, fmt.Errorf("find the ends of the outboxes: %w", err)
	}
	for i, o := range boxes {
		last, err := cmds[i].(*redis.XMessageSliceCmd).Result()
		if err != nil {
			return nil, fmt.Errorf("find the end of the outbox %s: %w", o.Name, err)
		}
		if ends[o] = "0-0"; len(last) > 0 {
			ends[o] = last[0].ID
		}
	}
	return ends, nil
}

// upTo reports whether an id of a stream is at most another one.
func upTo(id, last string) bool {
	a, _ := parsePosition(id)
	b, _ := parsePosition(last)
	return a.compare(b) <= 0
}
