package facts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// The transaction of a step in SQL that makes a fact true leaves it in a row of SQL's outbox. The process that made the step tells it
// at once. The row stays, and the relay of SQL's outbox tells it once more when it is some seconds old, because that process may have
// died, and because a fail-over may lose what a master of Redis took in its last second. Lanes remember the ids of rows for longer
// than these may be told.

const (
	// mostRecorded is how many keys a process notes whose facts it tells at once; the relay tells those of the others. The rows of
	// recordedAtOnce keys are read together.
	mostRecorded, recordedAtOnce = 10_000, 500
	// keepRowsOver is how much longer a lane remembers the id of a row than facts are kept. A row that is older than that is not told.
	keepRowsOver = 24 * time.Hour
)

// Recorded notes that a step in SQL has left facts about these keys: RunRecorded tells them at once. It takes no time.
func (s *Store) Recorded(keys ...string) {
	s.mu.Lock()
	for _, key := range keys {
		if len(s.recorded) < mostRecorded {
			s.recorded[key] = true
		}
	}
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// RunRecorded tells what Recorded notes until ctx ends, and then once more.
func (s *Store) RunRecorded(ctx context.Context) error {
	for {
		select {
		case <-s.news:
			redisdb.Sleep(ctx, gather)
			s.tellRecorded(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRound)
			defer cancel()
			s.tellRecorded(last)
			return nil
		}
	}
}

// tellRecorded tells the facts of the keys that were noted. What cannot be told waits for the relay of SQL's outbox.
func (s *Store) tellRecorded(ctx context.Context) {
	s.mu.Lock()
	keys := slices.Collect(maps.Keys(s.recorded))
	clear(s.recorded)
	s.mu.Unlock()
	for part := range slices.Chunk(keys, recordedAtOnce) {
		if _, err := s.tellRows(ctx, part); err != nil && ctx.Err() == nil {
			s.o.Logger.DebugContext(ctx, "facts on record wait for the relay", "error", err)
		}
	}
}

// Outbox returns the handler that tells facts on record, by kind of row.
func (s *Store) Outbox() map[string]record.OutboxHandler {
	return map[string]record.OutboxHandler{record.KindFact: func(ctx context.Context, rows []record.OutboxRow) (done []string, err error) {
		keys := map[string]bool{}
		for _, row := range rows {
			keys[row.Subject] = true
		}
		told, err := s.tellRows(ctx, slices.Sorted(maps.Keys(keys)))
		for _, row := range rows {
			if told[row.ID] {
				done = append(done, row.ID)
			}
		}
		return done, err
	}}
}

// tellRows tells all facts on record about some keys, those of a key in their order, and returns the ids of the rows that need no
// more telling. It reads the rows itself: a row that is told without an earlier one of its key would overtake it.
func (s *Store) tellRows(ctx context.Context, keys []string) (told map[string]bool, err error) {
	rows, err := s.o.Record.OpenFacts(ctx, keys)
	if err != nil {
		return nil, err
	}
	told, byLane := map[string]bool{}, map[int][]record.OutboxRow{}
	for _, row := range rows {
		lane := s.o.Events.LaneOf(row.Subject)
		byLane[lane] = append(byLane[lane], row)
	}
	lanes := slices.Sorted(maps.Keys(byLane))
	cmds := make([]redis.Cmder, 0, len(lanes))
	for _, lane := range lanes {
		args, failed := s.rowArgs(byLane[lane])
		err = cmp.Or(err, failed)
		cmds = append(cmds, onceScript.Cmd(ctx, s.keys(lane), args...))
	}
	if len(cmds) > 0 {
		_ = s.o.DB.Pipeline(ctx, redisdb.Write, cmds...) // each command has its error
	}
	for i, lane := range lanes {
		if failed := cmds[i].Err(); failed != nil {
			err = cmp.Or(err, fmt.Errorf("tell facts on record in lane %d: %w", lane, s.o.DB.Err(failed, redisdb.Write)))
			continue
		}
		for _, row := range byLane[lane] {
			told[row.ID] = true
		}
	}
	return told, err
}

// rowArgs are the arguments of facts_once.lua for rows. Those that are too old, or that cannot be read, are left out.
func (s *Store) rowArgs(rows []record.OutboxRow) (args []any, err error) {
	args = []any{(s.o.Retention + keepRowsOver).Milliseconds()}
	oldest := s.o.DB.Clock().Add(-s.o.Retention).UnixMilli()
	for _, row := range rows {
		var f record.Fact
		if failed := json.Unmarshal([]byte(row.Payload), &f); failed != nil {
			err = cmp.Or(err, fmt.Errorf("fact %s on record: %w", row.ID, failed))
			continue
		}
		if f.At < oldest {
			continue
		}
		n := min(rowPart, len(row.ID))
		args = append(args, row.ID[:n], row.ID[n:], f.Type, row.Subject, f.At, []byte(f.Data))
	}
	return args, err
}

// rowPart is how many characters of a row's id name the hash in which it is remembered, with the ids of about a minute.
const rowPart = 8
