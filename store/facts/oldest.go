package facts

import (
	"context"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// firstLook is how many facts of a lane Oldest reads at first, and secondLook how many more if none of these is of the types.
const firstLook, secondLook = 20, 480

// Oldest finds since when the oldest fact of some types is there that comes after positions in all lanes, as ReadLane takes them;
// zero: there is none. Whatever the lanes hold, it reads at most 500 facts of a lane, in two round trips. If none of these is of
// the types and there are more, it cannot be sure: then since is when the last of these came, and what is behind it
// is there for at most as long. A position that no reading gave is CodeValidation.
func (s *Store) Oldest(ctx context.Context, after []string, types func(string) bool) (since time.Time, sure bool, err error) {
	open := make([]lanePlace, len(after))
	for lane, text := range after {
		p, ok := parsePosition(text)
		if text != "" && !ok {
			return since, false, api.Invalid("after", "cursor", "is not a position in a lane")
		}
		open[lane] = lanePlace{lane: lane, after: p, most: firstLook}
	}
	least := int64(0) // ms
	sure = true
	note := func(ms int64, known bool) {
		if least == 0 || ms < least || ms == least && known {
			least, sure = ms, known
		}
	}
	for _, next := range []int{secondLook, 0} {
		var further []lanePlace
		for _, part := range s.look(ctx, open) {
			if part.err != nil {
				return since, false, part.err
			}
			switch at, found, more := part.first(types); {
			case found:
				note(at.ms, true)
			case more && next > 0:
				further = append(further, lanePlace{lane: part.from.lane, after: at, most: next})
			case more:
				note(at.ms, false)
			}
		}
		if open = further; len(open) == 0 {
			break
		}
	}
	if least != 0 {
		since = time.UnixMilli(least)
	}
	return since, sure, nil
}

// first is the position of the first fact of some types; if none was found, that of the last fact, and more tells that there may be
// further ones behind it.
func (part *lanePart) first(types func(string) bool) (at position, found, more bool) {
	for _, m := range part.found {
		id, ok := parsePosition(m.ID)
		if !ok {
			continue
		}
		if at = id; types(redisdb.Text(m.Values["t"])) {
			return at, true, false
		}
	}
	return at, false, len(part.found) == part.from.most
}

// Between is how many facts a lane had, of all types, between two positions in it, as ReadLane gives them.
func (*Store) Between(from, to string) int64 {
	a, _ := parsePosition(from)
	b, _ := parsePosition(to)
	return max(0, b.n-a.n)
}
