package facts

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	storetest.Checks(t, scripts)
}

// H2: pages of any size have each fact once, those of a key in their order, with ids that rise within a lane.
func TestH2_PagesHaveEachFactOnceInTheOrderOfItsKey(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		want := map[string][]int{}
		for n := range 40 {
			key := fmt.Sprint("key", n%13)
			want[key] = append(want[key], w.mustTell("a", key, 1+n%3)...)
		}
		for _, limit := range []int{1, 3, 7, 1000} {
			got, last, seen := map[string][]int{}, map[string]position{}, map[string]bool{}
			facts, _, gap := w.mustReadAll("", limit)
			for _, f := range facts {
				got[f.Key] = append(got[f.Key], numberOf(t, f))
				lane, text, _ := strings.Cut(f.ID, "-")
				id, ok := parsePosition(text)
				if !ok || id.compare(last[lane]) <= 0 || seen[f.ID] || f.At.UnixMilli() != id.ms {
					t.Errorf("a fact has the id %s after %v", f.ID, last[lane])
				}
				last[lane], seen[f.ID] = id, true
			}
			if fmt.Sprint(got) != fmt.Sprint(want) || gap != 0 {
				t.Errorf("pages of %d have %v, want %v; gap %d", limit, got, want, gap)
			}
		}
	})
}

// H2: a lane with very many facts keeps no other lane's from a reader.
func TestH2_EachLaneHasItsShare(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		keys := map[int]string{}
		for n := 0; len(keys) < w.s.Lanes(); n++ {
			key := fmt.Sprint("key", n)
			keys[w.q.LaneOf(key)] = key
		}
		for _, key := range keys {
			w.mustTell("b", key, 100)
			w.mustTell("a", key, 300)
		}
		for _, types := range [][]string{nil, {"a"}, {"a", "b"}} {
			count := map[string]int{}
			for _, f := range w.mustRead("", 40, types...).Items {
				count[f.Key]++
			}
			for _, key := range keys {
				if count[key] != 10 {
					t.Errorf("of types %v a page has of each key %v", types, count)
				}
			}
		}
	})
}

// H6: facts that were gone before a reader began are no gap, also in lanes that its first pages did not come to.
func TestH6_NoGapBeforeTheBegin(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		for n := range 40 {
			w.mustTell("a", fmt.Sprint("key", n), 10)
		}
		for n := range w.s.Lanes() {
			storetest.Must(t, db.Client().XTrimMaxLen(t.Context(), w.s.lane(n), 20).Err())
		}
		facts, _, gap := w.mustReadAll("", 3)
		if len(facts) != 20*w.s.Lanes() || gap != 0 {
			t.Errorf("%d facts, gap %d", len(facts), gap)
		}
	})
}

// H3: reading again from a position gives the same facts with the same ids, also when there are more by then, and to any reader.
func TestH3_ReadingAgainGivesTheSame(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		for n := range 30 {
			w.mustTell("a", fmt.Sprint("key", n), 1)
		}
		first := w.mustRead("", 5)
		read, _, _ := w.mustReadAll(first.Next, 9)
		for n := range 30 {
			w.mustTell("a", fmt.Sprint("key", n), 1)
		}
		again, _, _ := w.mustReadAll(first.Next, 4)
		ids := func(facts []api.Fact) map[string]string {
			all := map[string]string{}
			for _, f := range facts {
				all[f.ID] = f.Key + string(f.Data)
			}
			return all
		}
		before, after := ids(read), ids(again)
		for id, what := range before {
			if after[id] != what {
				t.Errorf("%s was %s and is %q", id, what, after[id])
			}
		}
		if len(first.Items) != 5 || len(before) != 25 || len(after) != 55 {
			t.Errorf("readings of %d, %d and %d facts", len(first.Items), len(before), len(after))
		}
	})
}

// H2: a reader who wants no past gets what comes; a position that no list gave is refused.
func TestH2_Positions(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "embedded")
	w := setup(t, db)
	w.mustTell("a", "x", 3)
	now := w.mustRead(api.FactsNow, 10)
	coming := w.mustTell("a", "x", 1)
	if list := w.mustRead(now.Next, 10); len(now.Items) != 0 || len(list.Items) != 1 || numberOf(t, list.Items[0]) != coming[0] || list.Gap != 0 {
		t.Errorf("from now on there are %v, then %v", now, list)
	}
	whole, _ := base64.RawURLEncoding.DecodeString(now.Next)
	for what, after := range map[string]string{
		"no base64": "!!", "another form": base64.RawURLEncoding.EncodeToString(append([]byte{9}, whole[1:]...)),
		"cut short": base64.RawURLEncoding.EncodeToString(whole[:len(whole)-1]), "more": base64.RawURLEncoding.EncodeToString(append(whole, 0)),
		"another number of lanes": positionsText(make([]position, 3)), "padded": now.Next + "=", "before all times": positionsText([]position{{ms: -5}, {}, {}, {}}),
		"an end of a lane": "5-5",
	} {
		_, err := w.s.Read(t.Context(), nil, after, nil, 10)
		t.Log(what)
		storetest.WantCode(t, err, api.CodeValidation)
	}
	_, _, _, err := w.s.ReadLane(t.Context(), 0, "x", nil, 1, 1)
	storetest.WantCode(t, err, api.CodeValidation)
	for _, all := range [][]position{{{}, {}}, {{ms: 1 << 41, n: 1 << 40}, {ms: 5, n: 1}}, make([]position, 256)} {
		if back, err := parsePositions(positionsText(all), len(all)); err != nil || !slices.Equal(back, all) {
			t.Errorf("%v becomes %v, %v", all, back, err)
		}
	}
}

// H6: what was dropped before a reader came to it is told as a gap, once, and not to a reader who begins.
func TestH6_GapCountsWhatIsGone(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		const key = "x"
		w.mustTell("a", key, 2)
		at := w.mustRead("", 10)
		w.mustTell("a", key, 10)
		storetest.Must(t, db.Client().XTrimMaxLen(t.Context(), w.s.lane(w.q.LaneOf(key)), 4).Err())
		late := w.mustRead(at.Next, 2)
		rest := w.mustRead(late.Next, 10)
		if late.Gap != 6 || len(late.Items) != 2 || numberOf(t, late.Items[0]) != 9 || rest.Gap != 0 || len(rest.Items) != 2 {
			t.Errorf("behind the gap there are %v, then %v", late, rest)
		}
		if fresh := w.mustRead("", 10); fresh.Gap != 0 || len(fresh.Items) != 4 {
			t.Errorf("a reader who begins gets %v", fresh)
		}
		storetest.Must(t, db.Client().XTrimMaxLen(t.Context(), w.s.lane(w.q.LaneOf(key)), 0).Err())
		if none := w.mustRead(late.Next, 10); none.Gap != 2 || len(none.Items) != 0 {
			t.Errorf("when all are gone a reader gets %v", none)
		} else if again := w.mustRead(none.Next, 10); again.Gap != 0 {
			t.Errorf("the gap is told twice: %v", again)
		}
		more := w.mustTell("a", key, 1)
		if list := w.mustRead(rest.Next, 10); list.Gap != 0 || len(list.Items) != 1 || numberOf(t, list.Items[0]) != more[0] {
			t.Errorf("after that there are %v", list)
		}
	})
}

// Only facts of the types that were asked for are listed, and positions move past the others.
func TestTypesAreChosen(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, "embedded"))
	w.mustTell("other", "x", 300)
	want := w.mustTell("wanted", "x", 2)
	w.mustTell("other", "x", 300)
	w.mustTell("wanted", "y", 1)
	facts, next, gap := w.mustReadAll("", 1, "wanted")
	if len(facts) != 3 || gap != 0 || !slices.ContainsFunc(facts, func(f api.Fact) bool { return numberOf(t, f) == want[1] }) {
		t.Errorf("the facts of the type are %v, gap %d", facts, gap)
	}
	if list := w.mustRead(next, 10); len(list.Items) != 0 {
		t.Errorf("behind all facts there are %v", list)
	}
}

// An answer has at most 1 MiB, or one fact, and ReadLane has its own bounds.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, "embedded"))
	large := `"` + strings.Repeat("x", 400<<10) + `"`
	for n := range 5 {
		_, err := w.db.Eval(t.Context(), redisdb.Write, moveScript, w.s.keys(1), "large", always, fmt.Sprintf("%d-0", n+1), "a", "k", "", large)
		storetest.Must(t, err)
	}
	pages, after, read := 0, "", 0
	for list := w.mustRead("", 100); len(list.Items) > 0; list = w.mustRead(after, 100) {
		if size := len(list.Items) * len(large); size > 1<<20 {
			t.Errorf("a page has %d bytes", size)
		}
		pages, read, after = pages+1, read+len(list.Items), list.Next
	}
	if pages != 3 || read != 5 {
		t.Errorf("%d facts came in %d pages", read, pages)
	}
	lanes, err := w.s.Ends(t.Context())
	storetest.Must(t, err)
	one, next, gap, err := w.s.ReadLane(t.Context(), 1, "", nil, 10, 10)
	if err != nil || len(one) != 1 || gap != 0 {
		t.Errorf("a reading of few bytes has %d facts, gap %d, %v", len(one), gap, err)
	}
	two, next, _, err := w.s.ReadLane(t.Context(), 1, next, nil, 2, 1<<30)
	if err != nil || len(two) != 2 {
		t.Errorf("a reading of two facts has %d, %v", len(two), err)
	}
	rest, next, _, err := w.s.ReadLane(t.Context(), 1, next, func(string) bool { return false }, 10, 1<<30)
	if err != nil || len(rest) != 0 || next != lanes[1] {
		t.Errorf("a reading of no types has %d, ends at %s, not at %s, %v", len(rest), next, lanes[1], err)
	}
}

// A reader that wants few facts of a rare type does not go past the others one by one.
func TestAReadingOfFewFactsGoesFar(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, "embedded"))
	key := "k"
	lane := w.q.LaneOf(key)
	w.mustTell("other", key, leastLook)
	w.mustTell("rare", key, 2)
	rare := func(typ string) bool { return typ == "rare" }
	all, next, gap, err := w.s.ReadLane(t.Context(), lane, "", rare, 1, 1<<20)
	if err != nil || len(all) != 1 || numberOf(t, all[0]) != leastLook+1 || gap != 0 {
		t.Fatalf("the first reading has %v, gap %d, %v", all, gap, err)
	}
	all, next, _, err = w.s.ReadLane(t.Context(), lane, next, rare, 1, 1<<20)
	if err != nil || len(all) != 1 || numberOf(t, all[0]) != leastLook+2 {
		t.Errorf("the second reading has %v, %v", all, err)
	}
	if end, err := w.s.End(t.Context(), lane); err != nil || end != next {
		t.Errorf("it ends at %s, the lane at %s, %v", next, end, err)
	}
}

// A reader who waits is told of a fact as soon as there is one; without rights to channels, within a second or so.
func TestReadersWait(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	for name, url := range map[string]string{"Redis": server.URL(), "Embedded": "embedded", "WithoutChannels": server.MustUser(t, "~*", "+@all", "resetchannels")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, storetest.Open(t, url))
			at := w.mustRead(api.FactsNow, 10).Next
			brief := time.Now()
			if list, err := w.s.Read(t.Context(), waiting(t, 50*time.Millisecond), at, nil, 10); err != nil || len(list.Items) != 0 || time.Since(brief) < 50*time.Millisecond {
				t.Errorf("a wait without a fact: %v, %v", list, err)
			}
			if name != "WithoutChannels" {
				w.s.lookEvery = time.Hour // messages alone wake it
			}
			got := make(chan *api.FactList, 1)
			go func() {
				list, err := w.s.Read(t.Context(), waiting(t, soon), at, []string{"b"}, 10)
				if err != nil {
					t.Error(err)
				}
				got <- list
			}()
			if name != "WithoutChannels" {
				storetest.Eventually(t, soon, "the reader waits", func() bool { return w.s.line.Waiting(channel) == 1 })
			}
			w.mustTell("a", "x", 1) // wakes it, and is none of its facts
			want := w.mustTell("b", "x", 1)
			if list := <-got; len(list.Items) != 1 || numberOf(t, list.Items[0]) != want[0] {
				t.Errorf("the reader got %v", list)
			}
		})
	}
}

// If Redis has lost facts that were read, readers go on with those that come.
func TestReadersGoOnWhenRedisWasLost(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := setup(t, storetest.Open(t, server.URL()))
	w.mustTell("a", "x", 5)
	ahead := w.mustRead("", 100)
	lane := w.q.LaneOf("x")
	storetest.Must(t, server.Client().FlushAll(t.Context()).Err())
	list := w.mustRead(ahead.Next, 100)
	want := w.mustTell("a", "x", 1)
	if list = w.mustRead(list.Next, 100); len(list.Items) != 1 || numberOf(t, list.Items[0]) != want[0] || list.Gap != 0 {
		t.Errorf("after Redis was emptied there are %v", list)
	}
	// A replica that lost writes has an older end, and its clock may be behind.
	far := positionsText([]position{{1 << 45, 9}, {1 << 45, 9}, {1 << 45, 9}, {1 << 45, 9}})
	list = w.mustRead(far, 100)
	if want = w.mustTell("a", "x", 1); len(list.Items) != 0 || list.Gap != 0 {
		t.Errorf("ahead of the end there are %v", list)
	}
	if list = w.mustRead(list.Next, 100); len(list.Items) != 1 || numberOf(t, list.Items[0]) != want[0] {
		t.Errorf("lane %d: behind its end there are %v", lane, list)
	}
	// A lane without its last id goes on behind its last entry.
	storetest.Must(t, server.Client().Del(t.Context(), w.s.last(lane)).Err())
	want = w.mustTell("a", "x", 1)
	if list = w.mustRead(list.Next, 100); len(list.Items) != 1 || numberOf(t, list.Items[0]) != want[0] {
		t.Errorf("after the last id was lost there are %v", list)
	}
}

// While the master of a lane is away, facts of other lanes are read, and its own come when it is back. If no other has any, the reader
// is told that one is away.
func TestALaneIsAway(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	w := setup(t, db)
	var away atomic.Bool
	lane := w.s.lane(w.q.LaneOf("x"))
	other := "y"
	for n := 0; w.q.LaneOf(other) == w.q.LaneOf("x"); n++ {
		other = fmt.Sprint("y", n)
	}
	w.s.o.DB = storetest.FaultyBy(t, db, func(cmd redis.Cmder) string {
		if args := cmd.Args(); len(args) > 1 && args[1] == lane {
			return "lane"
		}
		return ""
	}, func(string, bool) error {
		if away.Load() {
			return storetest.ErrCut
		}
		return nil
	})
	at := w.mustRead(api.FactsNow, 10).Next
	hidden, seen := w.mustTell("a", "x", 1), w.mustTell("a", other, 1)
	away.Store(true)
	list := w.mustRead(at, 10)
	if len(list.Items) != 1 || numberOf(t, list.Items[0]) != seen[0] || list.Gap != 0 {
		t.Errorf("while a lane is away there are %v", list)
	}
	_, err := w.s.Read(t.Context(), nil, list.Next, nil, 10)
	storetest.WantCode(t, err, api.CodeUnavailable)
	away.Store(false)
	if list = w.mustRead(list.Next, 10); len(list.Items) != 1 || numberOf(t, list.Items[0]) != hidden[0] || list.Gap != 0 {
		t.Errorf("when it is back there are %v", list)
	}
}
