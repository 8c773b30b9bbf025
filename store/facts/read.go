package facts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/wake"
)

const (
	// answerBytes bounds the facts of one answer.
	answerBytes = 1 << 20
	// leastLook is how many facts a look for some types reads of each lane.
	leastLook = 200
	// mostLooks is how often one reading looks at the lanes, if it finds no fact of the types that are asked for.
	mostLooks = 20
	// defaultLook is how often a reader that waits looks although nobody told that there is something new: the user of Redis
	// may have no rights to channels.
	defaultLook = time.Second
)

// lanePlace is where a look at a lane begins.
type lanePlace struct {
	lane   int
	after  position
	begins bool // there is no position yet: the oldest fact that is there comes first, and none before it counts as gone
	most   int
}

// lanePart is what one look found in a lane.
type lanePart struct {
	from  lanePlace
	end   position // of the lane, before the look
	found []redis.XMessage
	err   error
}

// look reads the next facts of some lanes in one pipeline, of all types. A part has the error of its lane.
func (s *Store) look(ctx context.Context, places []lanePlace) []lanePart {
	parts, cmds := make([]lanePart, len(places)), make([]redis.Cmder, 0, 2*len(places))
	for _, p := range places {
		cmds = append(cmds, redis.NewStringCmd(ctx, "get", s.last(p.lane)),
			redis.NewXMessageSliceCmd(ctx, "xrange", s.lane(p.lane), "("+p.after.String(), "+", "COUNT", p.most))
	}
	_ = s.o.DB.Pipeline(ctx, redisdb.Read, cmds...) // each command has its error
	for i, p := range places {
		part := &parts[i]
		part.from = p
		last, err := cmds[2*i].(*redis.StringCmd).Result()
		if errors.Is(err, redis.Nil) {
			last, err = position{}.String(), nil
		}
		part.end, _ = parsePosition(last) // a script wrote it
		if part.found, part.err = cmds[2*i+1].(*redis.XMessageSliceCmd).Result(); err != nil {
			part.err = err
		}
		if part.err != nil {
			part.err = fmt.Errorf("read lane %d of facts: %w", p.lane, s.o.DB.Err(part.err, redisdb.Read))
		}
	}
	return parts
}

// room is how much an answer has room for. While the answer is empty, it takes one fact of any size.
type room struct {
	facts, bytes int
	empty        bool
}

// take takes the facts of some types, as far as there is room. next is where the next look begins, more tells that there may be
// facts behind it, and gap is how many facts before it were gone.
func (part *lanePart) take(types func(string) bool, r *room) (facts []api.Fact, next position, more bool, gap int64) {
	next = part.from.after
	begins := part.from.begins
	for _, m := range part.found {
		id, ok := parsePosition(m.ID)
		if !ok {
			continue
		}
		if f := factOf(part.from.lane, id, m.Values); types == nil || types(f.Type) {
			size := len(f.ID) + len(f.Type) + len(f.Key) + len(f.Data)
			if r.facts == 0 || !r.empty && size > r.bytes {
				return facts, next, true, gap
			}
			facts = append(facts, f)
			r.facts, r.bytes, r.empty = r.facts-1, r.bytes-size, false
		}
		if !begins {
			gap += max(0, id.n-next.n-1)
		}
		begins, next = false, id
	}
	if len(part.found) > 0 {
		return facts, next, len(part.found) == part.from.most, gap
	}
	// Either all facts up to the end are gone, or Redis has lost facts that were read.
	if !begins {
		gap = max(0, part.end.n-next.n)
	}
	return nil, part.end, false, gap
}

// factOf reads an entry of a lane.
func factOf(lane int, id position, values map[string]any) api.Fact {
	text := func(name string) string { return redisdb.Text(values[name]) }
	at, err := strconv.ParseInt(text("a"), 10, 64)
	if err != nil {
		at = id.ms
	}
	return api.Fact{ID: strconv.Itoa(lane) + "-" + id.String(), Type: text("t"), Key: text("k"), At: api.AtMillis(at), Data: json.RawMessage(text("d"))}
}

// ReadLane reads the next facts of one lane, at most so many and so many bytes of them, but one at least. after is the next of the
// reading before, or "" to begin with the oldest fact that is there. types chooses the types; nil: all. next is where the next
// reading begins. It moves past facts of other types, too, so there may be no facts although there are more. gap is how many
// facts, of all types, were gone before they were read. If Redis has lost the position, the reading goes on from the end of
// what is there. A position that no reading gave is CodeValidation.
func (s *Store) ReadLane(ctx context.Context, lane int, after string, types func(string) bool, most, bytes int) (facts []api.Fact, next string, gap int64, err error) {
	p := lanePlace{lane: lane, most: max(1, most)}
	if after != "" {
		ok := false
		if p.after, ok = parsePosition(after); !ok {
			return nil, after, 0, api.Invalid("after", "cursor", "is not a position in a lane")
		}
	}
	p.begins = p.after == position{}
	most, all := p.most, int64(0)
	for looks := 1; ; looks++ {
		part := s.look(ctx, []lanePlace{p})[0]
		if part.err != nil {
			return nil, after, 0, part.err
		}
		facts, at, more, gap := part.take(types, &room{facts: most, bytes: bytes, empty: true})
		all += gap
		if len(facts) > 0 || !more || looks == 2 {
			s.missed.Add(all)
			return facts, at.String(), all, nil
		}
		p = lanePlace{lane: lane, after: at, most: max(most, leastLook)} // most facts here may be of other types
	}
}

// End is the position of a lane behind its last fact, as ReadLane takes it.
func (s *Store) End(ctx context.Context, lane int) (string, error) {
	last, err := redisdb.Value(ctx, s.o.DB, redisdb.Read, redis.NewStringCmd(ctx, "get", s.last(lane)))
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("find the end of lane %d of facts: %w", lane, err)
	}
	p, _ := parsePosition(last) // a script wrote it
	return p.String(), nil
}

// Ends are the positions of all lanes behind their last facts, as ReadLane takes them.
func (s *Store) Ends(ctx context.Context) ([]string, error) {
	ends, err := s.ends(ctx)
	texts := make([]string, len(ends))
	for i, p := range ends {
		texts[i] = p.String()
	}
	return texts, err
}

func (s *Store) ends(ctx context.Context) ([]position, error) {
	cmds, ends := make([]redis.Cmder, s.Lanes()), make([]position, s.Lanes())
	for n := range cmds {
		cmds[n] = redis.NewStringCmd(ctx, "get", s.last(n))
	}
	if err := s.o.DB.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, fmt.Errorf("find the ends of the lanes: %w", err)
	}
	for n, cmd := range cmds {
		ends[n], _ = parsePosition(cmd.(*redis.StringCmd).Val())
	}
	return ends, nil
}

// Join tells when there may be something new in a lane: told gets a value then, and one at once. leave must be called.
func (s *Store) Join(ctx context.Context) (told <-chan struct{}, leave func()) {
	c := s.line.Join(ctx, channel)
	return c, func() { s.line.Leave(channel, c) }
}

// Read reads the next facts of all lanes. after is the Next of the list before; "": the list begins with the oldest facts that
// are there, and api.FactsNow with those that come. types are the types to list; none: all. If there are none, Read waits for
// one until wait ends; nil: it does not wait. Facts of lanes whose master is away come later, as long as others have some. A
// position that no list gave is CodeValidation.
func (s *Store) Read(ctx, wait context.Context, after string, types []string, limit int) (*api.FactList, error) {
	r := &reading{s: s, places: make([]lanePlace, s.Lanes()), room: room{facts: limit, bytes: answerBytes, empty: true}}
	if len(types) > 0 {
		r.types = func(t string) bool { return slices.Contains(types, t) }
	}
	if err := r.begin(ctx, after); err != nil {
		return nil, err
	}
	if _, err := r.run(ctx); err != nil || len(r.items) > 0 || wait == nil {
		return r.list(), err
	}
	told, leave := s.Join(ctx)
	defer leave()
	for more := false; len(r.items) == 0 && (more || wake.Await(wait, told, s.lookEvery) == nil) && wait.Err() == nil; {
		var err error
		if more, err = r.run(ctx); err != nil {
			return nil, err
		}
	}
	return r.list(), nil
}

// reading is one call of Read.
type reading struct {
	s      *Store
	types  func(string) bool
	places []lanePlace // of all lanes
	room   room
	items  []api.Fact
	gap    int64
}

// begin finds where the lanes are read from.
func (r *reading) begin(ctx context.Context, after string) (err error) {
	var at []position
	switch after {
	case "":
	case api.FactsNow:
		at, err = r.s.ends(ctx)
	default:
		at, err = parsePositions(after, r.s.Lanes())
	}
	for n := range r.places {
		r.places[n].lane = n
		if at != nil {
			r.places[n].after = at[n]
		}
		r.places[n].begins = r.places[n].after == position{}
	}
	return err
}

// run looks at the lanes until the answer is full or the lanes have no more. It reports whether there may be more. The error is
// that of a lane, if no other has a fact.
func (r *reading) run(ctx context.Context) (more bool, err error) {
	open, first := make([]int, len(r.places)), rand.IntN(len(r.places)) // no lane has the first share each time
	for n := range open {
		open[n] = (first + n) % len(open)
	}
	for i := 0; i < mostLooks && len(open) > 0 && r.room.facts > 0 && r.room.bytes > 0; i++ {
		var failed error
		open, failed = r.lookAt(ctx, open)
		err = cmp.Or(err, failed)
	}
	slices.SortStableFunc(r.items, func(a, b api.Fact) int { return cmp.Compare(timeOf(a), timeOf(b)) })
	if len(r.items) > 0 {
		err = nil
	}
	return len(open) > 0, err
}

// lookAt looks at some lanes, with an equal share of what the answer has room for each. It returns those that may have more.
func (r *reading) lookAt(ctx context.Context, open []int) (more []int, err error) {
	share := (r.room.facts + len(open) - 1) / len(open)
	most := share
	if r.types != nil {
		most = max(most, leastLook) // most of them may be of other types
	}
	places := make([]lanePlace, len(open))
	for i, n := range open {
		places[i] = r.places[n]
		places[i].most = most
	}
	for i, part := range r.s.look(ctx, places) {
		if part.err != nil {
			err = part.err
			continue
		}
		n := open[i]
		own := room{facts: min(share, r.room.facts), bytes: r.room.bytes, empty: r.room.empty}
		facts, next, goesOn, gap := part.take(r.types, &own)
		r.room = room{facts: r.room.facts - len(facts), bytes: own.bytes, empty: own.empty}
		r.s.missed.Add(gap)
		r.items, r.gap = append(r.items, facts...), r.gap+gap
		r.places[n].after, r.places[n].begins = next, r.places[n].begins && next == r.places[n].after
		if goesOn {
			more = append(more, n)
		}
	}
	return more, err
}

// timeOf is the time in a fact's id, in ms: within a lane it never falls.
func timeOf(f api.Fact) int64 {
	_, id, _ := strings.Cut(f.ID, "-")
	p, _ := parsePosition(id)
	return p.ms
}

func (r *reading) list() *api.FactList {
	at := make([]position, len(r.places))
	for n, p := range r.places {
		at[n] = p.after
	}
	return &api.FactList{Items: append([]api.Fact{}, r.items...), Next: positionsText(at), Gap: r.gap}
}
