package events

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

const (
	// deadLetters is how long a notification may be kept as a dead letter, after it has waited.
	deadLetters = 7 * 24 * time.Hour
	// withdrawnFresh is how old the view of the withdrawn events may be when a notification is
	// written, and withdrawnRetry how soon after a failed reading the next one is tried.
	withdrawnFresh, withdrawnRetry = time.Second, 200 * time.Millisecond
	// withdrawnAgain is how far before the newest known entry a reading begins, because a master that
	// takes over may have lost that entry, and its clock may be behind.
	withdrawnAgain = 10 * time.Second
	// withdrawnPage is how many entries are read at once.
	withdrawnPage = 10_000
)

// withdrawn is this process's view of the withdrawn events.
type withdrawn struct {
	keep    time.Duration // how long an event stays withdrawn
	reading sync.Mutex    // one reading at a time
	mu      sync.RWMutex
	events  map[string]int64 // when they were withdrawn, in ms
	newest  int64            // when the newest one was
	readAt  time.Time        // when the last successful reading began
	until   time.Time        // no reading is made before then
}

// Withdraw lets no notification of these events be written any more, once it has returned and a
// second has passed. Events whose notifications were written before, and events that are too old to
// have waiting notifications, are not affected. It may be repeated, and may come before the event
// is accepted.
func (s *Store) Withdraw(ctx context.Context, named ...api.NamedEvent) error {
	oldest := s.o.Now().Add(-s.withdrawn.keep)
	least := strconv.FormatInt(oldest.UnixMilli(), 10)
	var cmds []redis.Cmder
	for i := range named {
		if named[i].At.After(oldest) {
			cmds = append(cmds, redis.NewStringCmd(ctx, "xadd", keyWithdrawn, "minid", "~", least, "*", "e", s.NamedID(&named[i])))
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	cmds = append(cmds, redis.NewBoolCmd(ctx, "pexpire", keyWithdrawn, s.withdrawn.keep.Milliseconds()))
	if err := s.o.DB.Share(ctx, redisdb.Write, cmds...); err != nil {
		return err
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return fmt.Errorf("withdraw events: %w", s.o.DB.Err(err, redisdb.Write))
		}
	}
	return nil
}

// Withdrawn tells whether an event was withdrawn. fresh says that this is known: the view of this
// process was read at most a second ago.
func (s *Store) Withdrawn(event string) (is, fresh bool) {
	s.withdrawn.mu.RLock()
	defer s.withdrawn.mu.RUnlock()
	_, is = s.withdrawn.events[event]
	return is, time.Since(s.withdrawn.readAt) < withdrawnFresh
}

// RefreshWithdrawn reads which events were withdrawn since the last reading. It does nothing if that
// was less than half a second ago or has just failed.
func (s *Store) RefreshWithdrawn(ctx context.Context) {
	w := &s.withdrawn
	w.reading.Lock()
	defer w.reading.Unlock()
	began := time.Now()
	if began.Before(w.until) {
		return
	}
	w.until = began.Add(withdrawnRetry)
	if err := s.readWithdrawn(ctx); err != nil {
		s.o.Logger.Debug("withdrawn events could not be read", "error", err)
		return
	}
	w.until = began.Add(withdrawnFresh / 2)
	w.mu.Lock()
	w.readAt = began
	w.mu.Unlock()
}

// readWithdrawn adds the new entries to the view.
func (s *Store) readWithdrawn(ctx context.Context) error {
	start := strconv.FormatInt(max(0, s.withdrawn.newest-withdrawnAgain.Milliseconds()), 10)
	for {
		cmd := redis.NewXMessageSliceCmd(ctx, "xrange", keyWithdrawn, start, "+", "count", withdrawnPage)
		if err := s.o.DB.Share(ctx, redisdb.Read, cmd); err != nil {
			return err
		}
		page, err := cmd.Result()
		if err != nil {
			return fmt.Errorf("read withdrawn events: %w", err)
		}
		s.withdrawn.add(page)
		if len(page) < withdrawnPage {
			return nil
		}
		start = "(" + page[len(page)-1].ID
	}
}

// add adds entries, and forgets those that are no longer kept.
func (w *withdrawn) add(page []redis.XMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(w.events)
	for _, entry := range page {
		ms, _, _ := strings.Cut(entry.ID, "-")
		at, _ := strconv.ParseInt(ms, 10, 64)
		event, _ := entry.Values["e"].(string)
		w.events[event], w.newest = at, max(w.newest, at)
	}
	if len(w.events) > before {
		maps.DeleteFunc(w.events, func(_ string, at int64) bool { return at < w.newest-w.keep.Milliseconds() })
	}
}
