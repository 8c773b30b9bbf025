package events

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"fanfare/store/redisdb"
)

//go:embed lua
var scripts embed.FS

const (
	// deadLetters is how long a notification may be kept as a dead letter, after it has waited.
	deadLetters = 7 * 24 * time.Hour
	// setFresh is how old the view of a set may be when a notification is
	// written, and setRetry how soon after a failed reading the next one is tried.
	setFresh, setRetry = time.Second, 200 * time.Millisecond
	// readAgain is how far before the newest known entry a reading begins, because a master that
	// takes over may have lost that entry, and its clock may be behind.
	readAgain = 10 * time.Second
	// setPage is how many entries are read at once.
	setPage = 10_000
)

// eventSet is a set of events, and this process's view of it. In Redis it is a stream of the events' ids, or
// several with the same ids, in different slots. A process reads a stream from the master that it has its work
// from, so that a master that is away holds up nobody else. Events that waited too long to matter leave the set.
type eventSet struct {
	db      *redisdb.DB
	script  *redisdb.Script
	log     *slog.Logger
	keep    time.Duration // how long an event stays in the set
	streams []stream
	mu      sync.RWMutex
	events  map[string]int64 // when they were added, in ms
}

// stream is one of a set's streams in Redis, and how far this process has read it.
type stream struct {
	key     string
	reading sync.Mutex // one reading at a time
	newest  int64      // when its newest entry was added, in ms; guarded by reading
	until   time.Time  // no reading is made before then; guarded by reading
	readAt  time.Time  // when the last successful reading began; guarded by the set
}

func newEventSet(o *Options, keep time.Duration, keys ...string) *eventSet {
	s := &eventSet{db: o.DB, script: redisdb.MustScript(scripts, "lua/set_add.lua"), log: o.Logger, keep: keep, streams: make([]stream, len(keys)), events: map[string]int64{}}
	for i, key := range keys {
		s.streams[i].key = key
	}
	return s
}

// add adds events to all streams, and then to the view of this process. After an error the events may be in some
// of the streams. oldest is the time before which events are no longer kept.
func (s *eventSet) add(ctx context.Context, oldest time.Time, ids ...string) error {
	var all errgroup.Group
	for i := range s.streams {
		all.Go(func() error { return s.addTo(ctx, s.streams[i].key, oldest, ids) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.events[id] = time.Now().UnixMilli()
	}
	return nil
}

// addTo adds events to one stream. A full Redis does not refuse it.
func (s *eventSet) addTo(ctx context.Context, key string, oldest time.Time, ids []string) error {
	args := []any{s.keep.Milliseconds(), oldest.UnixMilli()}
	for _, id := range ids {
		args = append(args, id)
	}
	if err := s.db.Do(ctx, redisdb.Write, s.script.Cmd(ctx, []string{key}, args...)); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}

// has reports whether an event is in the set. fresh says that this is known: stream n was read at most a second ago.
func (s *eventSet) has(n int, event string) (is, fresh bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, is = s.events[event]
	return is, time.Since(s.streams[n].readAt) < setFresh
}

// addedSince reports whether this process knows that an event was added since a time.
func (s *eventSet) addedSince(event string, since time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.events[event] >= since.UnixMilli()
}

// size is how many events this process knows that were added since a time.
func (s *eventSet) size(since time.Time) (n int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, at := range s.events {
		if at >= since.UnixMilli() {
			n++
		}
	}
	return n
}

// refresh reads which events were added to stream n since its last reading. It does nothing if that
// was less than half a second ago or has just failed.
func (s *eventSet) refresh(ctx context.Context, n int) {
	one := &s.streams[n]
	one.reading.Lock()
	defer one.reading.Unlock()
	if time.Now().Before(one.until) {
		return
	}
	if err := s.load(ctx, one); err != nil {
		s.log.Debug("a set of events could not be read", "key", one.key, "error", err)
	}
}

// reload reads which events were added to stream n, however recent its last reading is.
func (s *eventSet) reload(ctx context.Context, n int) error {
	one := &s.streams[n]
	one.reading.Lock()
	defer one.reading.Unlock()
	return s.load(ctx, one)
}

// load reads which events were added to a stream. The caller holds its reading.
func (s *eventSet) load(ctx context.Context, one *stream) error {
	began := time.Now()
	if err := s.read(ctx, one); err != nil {
		one.until = time.Now().Add(setRetry)
		return err
	}
	one.until = began.Add(setFresh / 2)
	s.mu.Lock()
	defer s.mu.Unlock()
	one.readAt = began
	return nil
}

// read adds the new entries of a stream to the view.
func (s *eventSet) read(ctx context.Context, one *stream) error {
	start := strconv.FormatInt(max(0, one.newest-readAgain.Milliseconds()), 10)
	for {
		cmd := redis.NewXMessageSliceCmd(ctx, "xrange", one.key, start, "+", "count", setPage)
		page, err := redisdb.Value(ctx, s.db, redisdb.Read, cmd)
		if err != nil {
			return fmt.Errorf("read %s: %w", one.key, err)
		}
		s.learn(one, page)
		if len(page) < setPage {
			return nil
		}
		start = "(" + page[len(page)-1].ID
	}
}

// learn adds entries of a stream to the view, and forgets events that are no longer kept.
func (s *eventSet) learn(one *stream, page []redis.XMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.events)
	for _, entry := range page {
		ms, _, _ := strings.Cut(entry.ID, "-")
		at, _ := strconv.ParseInt(ms, 10, 64)
		event, _ := entry.Values["e"].(string)
		s.events[event], one.newest = at, max(one.newest, at)
	}
	if len(s.events) > before {
		maps.DeleteFunc(s.events, func(_ string, at int64) bool { return at < one.newest-s.keep.Milliseconds() })
	}
}
