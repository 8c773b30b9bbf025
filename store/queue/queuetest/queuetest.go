// Package queuetest reads what a queue has in Redis, and stores jobs, for the tests of a queue
// and of its shards.
package queuetest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// Options are those of a new queue of one shard with short times.
func Options(t testing.TB) queue.Options {
	return queue.Options{Name: "t" + queue.NewID(0, time.Now())[8:16], Shards: 1, Lease: 400 * time.Millisecond,
		RetryBase: 10 * time.Millisecond, RetryMax: 200 * time.Millisecond, Logger: storetest.Logger(t, slog.LevelInfo)}
}

// MustEnqueue stores jobs and returns their ids.
func MustEnqueue(t testing.TB, q *queue.Queue, jobs ...queue.Job) []string {
	t.Helper()
	for i := range jobs { // named here, so that it may be tried again
		if j := &jobs[i]; j.ID == "" {
			j.Shard = q.Route(cmp.Or(j.Key, j.Unique, fmt.Sprint(rand.Int64())))
			j.ID = queue.NewID(j.Shard, time.Now())
		}
	}
	stored, err := q.Enqueue(t.Context(), jobs...)
	for try := 0; err != nil && try < 10; try++ { // a machine may be too busy for its time-outs
		stored, err = q.Enqueue(t.Context(), jobs...)
	}
	if err != nil {
		t.Fatalf("enqueue: %v", err)
	}
	ids := make([]string, len(stored))
	for i, s := range stored {
		ids[i] = s.ID
	}
	return ids
}

// Report reads the report of a job; "": there is none, or no longer.
func Report(ctx context.Context, q *queue.Queue, id string) (string, error) {
	read, err := q.ReportsOf(ctx, []string{id})
	if err != nil || len(read) == 0 {
		return "", err
	}
	return read[0].Report, nil
}

// MustScan lists the keys that match, of all masters.
func MustScan(t testing.TB, db *redisdb.DB, pattern string) []string {
	t.Helper()
	var mu sync.Mutex
	var keys []string
	err := db.Walk(t.Context(), pattern, func(_ context.Context, page []string) error {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, page...)
		return nil
	})
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	slices.Sort(keys)
	return slices.Compact(keys) // a scan may tell one twice
}

// State is everything a shard holds, read without its scripts.
type State struct {
	Records                      map[string]string // live jobs
	Heads, Uniques               map[string]string
	Streams                      map[string][]string // letter: job ids
	Later, Waiting, Parked, Dead []string
	Attachments                  []string
	Texts                        map[string][]string // id: the fields of its head
	DueAt                        map[string]string   // id: the time of its list
	waitingOf                    map[string]string   // id: key
	lists                        int                 // times at which jobs are due, less their lists
	wrong                        []string            // what was wrong already when it was read
}

// note remembers the head of a job's text; false: it is no job.
func (s *State) note(text string) (id string, ok bool) {
	head, _, _ := strings.Cut(text, "\x00")
	if head == "" || head[0] == 'W' {
		return "", false
	}
	fields := strings.Split(head[1:], "\x1f")
	if s.Texts[fields[0]] = fields; head[0] == 'P' || head[0] == 'R' {
		s.Texts[fields[0]] = append(fields, "", "", "", "", "", "", "", "0", "0", "0", "")
	}
	return fields[0], true
}

// named reports whether a job has to have a record.
func (s *State) named(id string) bool { return s.Texts[id][11] != "" }

// MustState reads a shard whose keys have a prefix, of the queue with a name.
func MustState(t testing.TB, db *redisdb.DB, queue, p string) *State {
	t.Helper()
	c, ctx := db.Client(), t.Context()
	s := &State{Streams: map[string][]string{}, waitingOf: map[string]string{}, Texts: map[string][]string{}, DueAt: map[string]string{}}
	s.Records = map[string]string{}
	s.Heads, s.Uniques = c.HGetAll(ctx, p+"heads").Val(), c.HGetAll(ctx, p+"uniques").Val()
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
	slots := c.ZRange(ctx, p+"later", 0, -1).Val()
	for _, slot := range slots {
		for _, text := range c.LRange(ctx, p+"later:"+slot, 0, -1).Val() {
			job, _ := s.note(text)
			s.DueAt[job] = slot
			s.Later = append(s.Later, job)
		}
	}
	later, _ := c.HGet(ctx, p+"stats", "later").Int() // 0: it is absent
	if s.lists = len(slots); later != len(s.Later) {
		s.wrong = append(s.wrong, fmt.Sprintf("%d jobs for later are counted as %d", len(s.Later), later))
	}
	s.Streams["m"], s.Streams["r"], s.Streams["f"], s.Streams["a"] = ids(p+"main"), ids(p+"ready"), ids(p+"few"), ids(p+"alone")
	s.Dead = ids(p + "dead")
	for _, key := range MustScan(t, db, "ff:{q:"+queue+":*") {
		name, ok := strings.CutPrefix(key, p)
		switch {
		case !ok:
		case strings.HasPrefix(name, "jobs:"):
			maps.Copy(s.Records, c.HGetAll(ctx, key).Val())
		case strings.HasPrefix(name, "later:"):
			s.lists--
		case strings.HasPrefix(name, "attach:"):
			s.Attachments = append(s.Attachments, name[7:])
		case strings.HasPrefix(name, "wait:"):
			for _, id := range line(key) {
				s.Waiting = append(s.Waiting, id)
				s.waitingOf[id] = name[5:]
			}
		case strings.HasPrefix(name, "parked:"):
			s.Parked = append(s.Parked, ids(key)...)
		}
	}
	if s.lists != 0 {
		s.wrong = append(s.wrong, fmt.Sprintf("%d times without a list, or the other way round", s.lists))
	}
	return s
}

// Problems finds what does not fit together. It must be asked while nothing
// changes.
func (s *State) Problems() (out []string) {
	out = slices.Clone(s.wrong)
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	places := map[string][]string{}
	note := func(place string, ids []string) {
		for _, id := range ids {
			places[id] = append(places[id], place)
		}
	}
	for letter, ids := range s.Streams {
		note("stream "+letter, ids)
	}
	note("later", s.Later)
	note("waiting", s.Waiting)
	note("parked", s.Parked)
	for id, where := range places {
		if s.named(id) != (s.Records[id] != "") {
			say("job %s is in %v and has the record %q", id, where, s.Records[id])
		}
		if len(where) > 1 {
			say("job %s is in %v", id, where)
		}
	}
	for id := range s.Records {
		if len(places[id]) == 0 {
			say("record of job %s, which is nowhere", id)
		}
	}
	for key, id := range s.Heads {
		if len(places[id]) == 0 {
			say("key %s is held by %s, which is not alive", key, id)
		}
		if slices.Contains(s.Waiting, id) || slices.Contains(s.Later, id) || slices.Contains(s.Parked, id) {
			say("key %s is held by %s, which waits", key, id)
		}
	}
	for id, key := range s.waitingOf {
		if s.Heads[key] == "" {
			say("job %s waits for key %s, which nobody holds", id, key)
		}
	}
	for unique, id := range s.Uniques {
		if len(places[id]) == 0 {
			say("unique id %s belongs to %s, which is not alive", unique, id)
		}
	}
	for _, id := range s.Attachments {
		if len(places[id]) == 0 && !slices.Contains(s.Dead, id) {
			say("attachment of job %s, which is gone", id)
		}
	}
	return out
}

// In lists the jobs in the places where those of a state are.
func (s *State) In(state string) []string {
	switch state {
	case "later":
		return s.Later
	case "blocked":
		return s.Waiting
	}
	return slices.Concat(s.Streams["m"], s.Streams["r"], s.Streams["f"], s.Streams["a"])
}

// NumberOf reads a number of a head, in which 0 is left out.
func NumberOf(field string) int {
	n, _ := strconv.Atoi(field)
	return n
}
