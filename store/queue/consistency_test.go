package queue_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
)

// prefix of the keys of shard n.
func (w *world) prefix(n int) string { return queue.Prefix(w.o.Name, n, max(w.o.Shards, 1)) }

// mustKeys lists all keys of this queue's shards.
func (w *world) mustKeys() []string {
	w.t.Helper()
	return mustScan(w.t, w.db, "ff:{q:"+w.o.Name+":*")
}

// mustScan lists the keys that match, of all masters.
func mustScan(t testing.TB, db *redisdb.DB, pattern string) []string {
	t.Helper()
	var mu sync.Mutex
	var keys []string
	scan := func(ctx context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		it := c.Scan(ctx, 0, pattern, 10_000).Iterator()
		for it.Next(ctx) {
			keys = append(keys, it.Val())
		}
		return it.Err()
	}
	var err error
	switch c := db.Client().(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(t.Context(), scan)
	case *redis.Client:
		err = scan(t.Context(), c)
	}
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	slices.Sort(keys)
	return slices.Compact(keys) // a scan may tell one twice
}

// shardState is everything a shard holds, read without its scripts.
type shardState struct {
	records                      map[string]string // live jobs
	heads, uniques               map[string]string
	streams                      map[string][]string // letter: job ids
	later, waiting, parked, dead []string
	attachments                  []string
	waitingOf                    map[string]string   // id: key
	texts                        map[string][]string // id: the fields of its head
	dueAt                        map[string]string   // id: the time of its list
	lists                        int                 // times at which jobs are due, less their lists
	wrong                        []string            // what was wrong already when it was read
}

// note remembers the head of a job's text; false: it is no job.
func (s *shardState) note(text string) (id string, ok bool) {
	head, _, _ := strings.Cut(text, "\x00")
	if head == "" || head[0] == 'W' {
		return "", false
	}
	fields := strings.Split(head[1:], "\x1f")
	if s.texts[fields[0]] = fields; head[0] == 'P' || head[0] == 'R' {
		s.texts[fields[0]] = append(fields, "", "", "", "", "", "", "", "0", "0", "0", "")
	}
	return fields[0], true
}

// named tells whether a job has to have a record.
func (s *shardState) named(id string) bool { return s.texts[id][11] != "" }

func (w *world) mustState(n int) *shardState {
	w.t.Helper()
	c, p, ctx := w.db.Client(), w.prefix(n), w.t.Context()
	s := &shardState{streams: map[string][]string{}, waitingOf: map[string]string{}, texts: map[string][]string{}, dueAt: map[string]string{}}
	s.records = map[string]string{}
	s.heads, s.uniques = c.HGetAll(ctx, p+"heads").Val(), c.HGetAll(ctx, p+"uniques").Val()
	ids := func(key string) (out []string) {
		for _, m := range c.XRange(ctx, key, "-", "+").Val() {
			text, ok := m.Values["e"].(string)
			if !ok { // a dead letter
				out = append(out, m.Values["i"].(string))
				continue
			}
			if job, ok := s.note(text); ok {
				out = append(out, job)
			}
		}
		return out
	}
	line := func(key string) (out []string) {
		for _, z := range c.ZRangeWithScores(ctx, key, 0, -1).Val() {
			job, _ := s.note(z.Member.(string))
			out = append(out, job)
		}
		return out
	}
	slots, later := c.ZRange(ctx, p+"later", 0, -1).Val(), 0
	for _, slot := range slots {
		for _, text := range c.LRange(ctx, p+"later:"+slot, 0, -1).Val() {
			job, _ := s.note(text)
			s.dueAt[job] = slot
			s.later = append(s.later, job)
		}
	}
	fmt.Sscan(c.HGet(ctx, p+"stats", "later").Val(), &later)
	if s.lists = len(slots); later != len(s.later) {
		s.wrong = append(s.wrong, fmt.Sprintf("%d jobs for later are counted as %d", len(s.later), later))
	}
	s.streams["m"], s.streams["r"], s.streams["a"], s.dead = ids(p+"main"), ids(p+"ready"), ids(p+"alone"), ids(p+"dead")
	for _, key := range w.mustKeys() {
		name, ok := strings.CutPrefix(key, p)
		switch {
		case !ok:
		case strings.HasPrefix(name, "jobs:"):
			maps.Copy(s.records, c.HGetAll(ctx, key).Val())
		case strings.HasPrefix(name, "later:"):
			s.lists--
		case strings.HasPrefix(name, "attach:"):
			s.attachments = append(s.attachments, name[7:])
		case strings.HasPrefix(name, "wait:"):
			for _, id := range line(key) {
				s.waiting = append(s.waiting, id)
				s.waitingOf[id] = name[5:]
			}
		case strings.HasPrefix(name, "parked:"):
			s.parked = append(s.parked, ids(key)...)
		}
	}
	if s.lists != 0 {
		s.wrong = append(s.wrong, fmt.Sprintf("%d times without a list, or the other way round", s.lists))
	}
	return s
}

// problems finds what does not fit together. It must be asked while nothing
// changes.
func (s *shardState) problems() (out []string) {
	out = slices.Clone(s.wrong)
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	places := map[string][]string{}
	note := func(place string, ids []string) {
		for _, id := range ids {
			places[id] = append(places[id], place)
		}
	}
	for letter, ids := range s.streams {
		note("stream "+letter, ids)
	}
	note("later", s.later)
	note("waiting", s.waiting)
	note("parked", s.parked)
	for id, where := range places {
		if s.named(id) != (s.records[id] != "") {
			say("job %s is in %v and has the record %q", id, where, s.records[id])
		}
		if len(where) > 1 {
			say("job %s is in %v", id, where)
		}
	}
	for id := range s.records {
		if len(places[id]) == 0 {
			say("record of job %s, which is nowhere", id)
		}
	}
	for key, id := range s.heads {
		if len(places[id]) == 0 {
			say("key %s is held by %s, which is not alive", key, id)
		}
		if slices.Contains(s.waiting, id) || slices.Contains(s.later, id) || slices.Contains(s.parked, id) {
			say("key %s is held by %s, which waits", key, id)
		}
	}
	for id, key := range s.waitingOf {
		if s.heads[key] == "" {
			say("job %s waits for key %s, which nobody holds", id, key)
		}
	}
	for unique, id := range s.uniques {
		if len(places[id]) == 0 {
			say("unique id %s belongs to %s, which is not alive", unique, id)
		}
	}
	for _, id := range s.attachments {
		if len(places[id]) == 0 && !slices.Contains(s.dead, id) {
			say("attachment of job %s, which is gone", id)
		}
	}
	return out
}

// mustBeConsistent checks every shard: each held key has a live job, nothing is
// an orphan. Results may be on their way, so it looks until it holds.
func (w *world) mustBeConsistent() {
	w.t.Helper()
	var found []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // the pace of a poll
		found = nil
		for n := range w.o.Shards {
			found = append(found, w.mustState(n).problems()...)
		}
		if len(found) == 0 {
			return
		}
	}
	w.t.Fatalf("not consistent:\n%s", strings.Join(found, "\n"))
}

// mustBeEmpty waits until no job is live.
func (w *world) mustBeEmpty() {
	w.t.Helper()
	eventually(w.t, "no live job is left", func() bool {
		for n := range w.o.Shards {
			s := w.mustState(n)
			inStreams := len(s.streams["m"]) + len(s.streams["r"]) + len(s.streams["a"])
			if len(s.records)+len(s.heads)+len(s.uniques)+len(s.waiting)+inStreams > 0 {
				return false
			}
		}
		return true
	})
}

// mustClaimAndDie claims what is there in a process that then dies: its run is
// cut off from Redis in mid-job and never heard of again.
func (w *world) mustClaimAndDie() []*queue.Claimed {
	w.t.Helper()
	dying := w.another()
	claimed := make(chan []*queue.Claimed, 1)
	kill := dying.runUntilKilled(func(_ context.Context, batch []*queue.Claimed) {
		claimed <- batch
		<-w.t.Context().Done()
	})
	select {
	case batch := <-claimed:
		kill()
		return batch
	case <-time.After(10 * time.Second):
		w.t.Fatal("nothing was claimed")
		return nil
	}
}
