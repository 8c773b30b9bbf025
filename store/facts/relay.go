package facts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

const (
	// gather is how long a process waits, after a step has left a fact, for those of other steps before it moves them.
	gather = 20 * time.Millisecond
	// mostNotes is about how many events one round looks at, and overAtOnce how many of them together.
	mostNotes, overAtOnce = 2000, 200
	// overPart is how many characters of an event's id name the hash in which it is remembered that the event is over
	// (queue.NewID).
	overPart = 6
	// stuckPages is how many pages of an outbox one round reads if some of its facts cannot be moved.
	stuckPages = 10
	// lastRound bounds the last round of a process that stops.
	lastRound = 2 * time.Second
)

// Left notes that something may have been left in an outbox: it is moved at once. It takes no time.
func (s *Store) Left(o Outbox) {
	s.mu.Lock()
	s.dirty[o] = true
	s.mu.Unlock()
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// Run moves what was left in outboxes until ctx ends, and then once more.
func (s *Store) Run(ctx context.Context) error {
	told, all := sweep{name: "told", every: sweepEvery}, sweep{name: "all", every: restEvery, all: true}
	heldUp := false
	for {
		swept := s.begin(ctx, &told, heldUp)
		swept = s.begin(ctx, &all, heldUp) || swept
		err := s.round(ctx, s.takeDirty())
		if away := err != nil && ctx.Err() == nil; away && !heldUp || swept && heldUp && !away { // only a sweep tells that it goes on
			heldUp = away
			s.o.Logger.InfoContext(ctx, "facts", "held_up", away, "error", err)
		}
		select {
		case <-s.poke:
			redisdb.Sleep(ctx, gather)
		case <-time.After(time.Until(told.next)):
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRound)
			defer cancel()
			_ = s.round(last, s.takeDirty()) // what is left is moved by others, or after the next start
			return nil
		}
	}
}

// takeDirty takes the outboxes in which something may be left.
func (s *Store) takeDirty() []Outbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	boxes := slices.Collect(maps.Keys(s.dirty))
	clear(s.dirty)
	return boxes
}

// Sweep moves all that was left in outboxes, and tells which events are over, once through.
func (s *Store) Sweep(ctx context.Context) error { return s.round(ctx, s.o.Outboxes) }

// Move moves all that was left in an outbox. If there is very much, the rest is moved soon.
func (s *Store) Move(ctx context.Context, o Outbox) error { return s.round(ctx, []Outbox{o}) }

// round moves all that some outboxes have, and tells which events are over.
func (s *Store) round(ctx context.Context, boxes []Outbox) error {
	if len(boxes) == 0 {
		return nil
	}
	m := &moving{s: s, stuck: map[way]bool{}, notes: map[string][]entry{}}
	err := m.pass(ctx, boxes, nil)
	if err = errors.Join(err, m.tellOver(ctx)); err != nil {
		return errors.Join(err, s.trimOutboxes(ctx, boxes))
	}
	for _, o := range m.left {
		s.Left(o) // the next round goes on at once
	}
	return s.trimOutboxes(ctx, m.left)
}

// way is the way from an outbox to a lane.
type way struct {
	box  Outbox
	lane int
}

// moving is one round.
type moving struct {
	s     *Store
	stuck map[way]bool       // ways on which a fact could not be moved: later ones must not overtake it
	notes map[string][]entry // notes of events that may be over, by the events' ids
	left  []Outbox           // outboxes that have more
}

// sticks reports whether an outbox has facts that could not be moved.
func (m *moving) sticks(o Outbox) bool {
	for w := range m.stuck {
		if w.box == o {
			return true
		}
	}
	return false
}

// pass moves the facts of some outboxes, page by page, up to the ids of until, or to their ends. Without until it also gathers the
// notes of events. It goes on after an error, and returns the first one.
func (m *moving) pass(ctx context.Context, boxes []Outbox, until map[Outbox]string) (first error) {
	after := map[Outbox]string{}
	for pages := 1; len(boxes) > 0; pages++ {
		found, err := m.s.readOutboxes(ctx, boxes, after)
		first = cmp.Or(first, err)
		var facts []left
		var more []Outbox
		for _, o := range boxes {
			page := found[o]
			if until != nil {
				page = slices.DeleteFunc(page, func(e entry) bool { return !upTo(e.id, until[o]) })
			}
			if len(page) == 0 {
				continue
			}
			after[o] = page[len(page)-1].id
			switch {
			case len(page) < pageSize:
			case until != nil, len(m.notes) < mostNotes && (pages < stuckPages || !m.sticks(o)):
				more = append(more, o)
			default:
				m.left = append(m.left, o)
			}
			facts = append(facts, m.factsOf(page, until == nil)...)
		}
		if err := m.move(ctx, facts); err != nil {
			first = cmp.Or(first, err)
		}
		boxes = more
	}
	return first
}

// factsOf are the facts of a page. It may gather the notes of events.
func (m *moving) factsOf(page []entry, gather bool) (facts []left) {
	for _, e := range page {
		if e.typ != noteEnded {
			facts = append(facts, left{entry: e})
		} else if gather {
			id := eventOf(e.key)
			m.notes[id] = append(m.notes[id], e)
		}
	}
	return facts
}

// move moves facts in their order and deletes them from their outboxes.
func (m *moving) move(ctx context.Context, all []left) error {
	if err := m.s.describe(ctx, all); err != nil {
		for _, l := range all { // nothing behind them may be moved in this round
			m.stuck[way{l.box, l.lane}] = true
		}
		return err
	}
	gone, ways, byWay := map[Outbox][]string{}, []way{}, map[way][]left{}
	for _, l := range all {
		w := way{l.box, l.lane}
		switch {
		case len(l.facts) == 0:
			gone[l.box] = append(gone[l.box], l.id)
		case !m.stuck[w]:
			if byWay[w] == nil {
				ways = append(ways, w)
			}
			byWay[w] = append(byWay[w], l)
		}
	}
	cmds := make([]redis.Cmder, len(ways))
	for i, w := range ways {
		cmds[i] = moveScript.Cmd(ctx, m.s.keys(w.lane), moveArgs(w.box, byWay[w])...)
	}
	var first error
	if len(cmds) > 0 {
		_ = m.s.o.DB.Pipeline(ctx, redisdb.Write, cmds...) // each command has its error
	}
	for i, w := range ways {
		if err := cmds[i].Err(); err != nil {
			m.stuck[w] = true
			first = cmp.Or(first, fmt.Errorf("move facts to lane %d: %w", w.lane, m.s.o.DB.Err(err, redisdb.Write)))
			continue
		}
		for _, l := range byWay[w] {
			gone[w.box] = append(gone[w.box], l.id)
		}
	}
	return cmp.Or(first, m.s.forget(ctx, gone))
}

// moveArgs are the arguments of facts_move.lua.
func moveArgs(o Outbox, all []left) []any {
	args := []any{o.Name, remembered.Milliseconds()}
	for _, l := range all {
		for _, f := range l.facts {
			args = append(args, l.id, f.typ, f.key, l.at, f.data)
		}
	}
	return args
}

// tellOver tells which of the events are over that notes were about, after all that was left before that. The notes of the others
// are deleted: their next step leaves another. It reads the outboxes once for all events, because each reading is of all notes that
// wait. Only outboxes of queues have facts about events.
func (m *moving) tellOver(ctx context.Context) (first error) {
	gone, over := map[Outbox][]string{}, map[string]json.RawMessage{}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(m.notes)), overAtOnce) {
		some, err := m.s.o.Over(ctx, ids)
		if err != nil {
			first = cmp.Or(first, fmt.Errorf("find out which events are over: %w", err))
			continue
		}
		maps.Copy(over, some)
		for _, id := range ids {
			if some[id] == nil {
				m.drop(gone, id)
			}
		}
	}
	if len(over) > 0 {
		boxes := slices.DeleteFunc(slices.Clone(m.s.o.Outboxes), func(o Outbox) bool { return o.queue == nil })
		until, err := m.s.outboxEnds(ctx, boxes)
		if err == nil {
			err = m.pass(ctx, boxes, until)
		}
		if err == nil {
			err = m.append(ctx, over, gone)
		}
		first = cmp.Or(first, err)
	}
	return errors.Join(first, m.s.forget(ctx, gone))
}

// blocked reports whether facts for a lane could not be moved.
func (m *moving) blocked(lane int) bool {
	for w := range m.stuck {
		if w.lane == lane {
			return true
		}
	}
	return false
}

// drop adds the notes of an event to those that are to be deleted.
func (m *moving) drop(gone map[Outbox][]string, id string) {
	for _, e := range m.notes[id] {
		gone[e.box] = append(gone[e.box], e.id)
	}
}

// append appends to the lanes that can be reached that events are over, and adds their notes to those that are to be deleted.
func (m *moving) append(ctx context.Context, over map[string]json.RawMessage, gone map[Outbox][]string) (first error) {
	told := make([][]string, m.s.Lanes()) // by lane
	for _, id := range slices.Sorted(maps.Keys(over)) {
		if lane := m.s.o.Events.LaneOf(id); !m.blocked(lane) {
			told[lane] = append(told[lane], id)
		}
	}
	var cmds []redis.Cmder
	var lanes []int
	for lane, ids := range told {
		if len(ids) == 0 {
			continue
		}
		args := []any{m.s.o.KeepDone.Milliseconds()}
		for _, id := range ids {
			n := min(overPart, len(id))
			args = append(args, id[:n], id[n:], api.FactEventDone, id, "", []byte(over[id]))
		}
		cmds, lanes = append(cmds, onceScript.Cmd(ctx, m.s.keys(lane), args...)), append(lanes, lane)
	}
	if len(cmds) == 0 {
		return nil
	}
	_ = m.s.o.DB.Pipeline(ctx, redisdb.Write, cmds...) // each command has its error
	for i, lane := range lanes {
		if err := cmds[i].Err(); err != nil {
			first = cmp.Or(first, fmt.Errorf("tell in lane %d which events are over: %w", lane, m.s.o.DB.Err(err, redisdb.Write)))
			continue
		}
		for _, id := range told[lane] {
			m.drop(gone, id)
		}
	}
	return first
}
