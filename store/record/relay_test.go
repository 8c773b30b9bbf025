package record_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/record"
	"fanfare/store/storetest"
)

var errHeldUp = errors.New("held up")

// ids names rows.
func ids(rows []record.OutboxRow) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

func TestRelay(t *testing.T) {
	t.Parallel()
	due := record.RelayOptions{Age: time.Nanosecond}
	t.Run("WhatIsDoneGoesAndTheRestComesAgain", func(t *testing.T) {
		t.Parallel()
		eachConnection(t, func(t *testing.T, db *record.DB) {
			for i := range 3 {
				mustPutUpload(t, db, upload(fmt.Sprint("u", i), "alice", "public", 1))
			}
			rounds := 0
			relay := db.NewRelay(due, map[string]record.OutboxHandler{
				record.KindUpload: func(_ context.Context, rows []record.OutboxRow) ([]string, error) {
					rounds++
					return ids(rows)[1:], nil // the first cannot be read, say
				},
			})
			for range 3 {
				storetest.Must(t, relay.Sweep(t.Context()))
			}
			if open, _, err := db.OutboxLag(t.Context(), record.KindUpload); err != nil || open != 1 || rounds != 3 {
				t.Fatalf("%d rows are open after %d rounds, %v", open, rounds, err)
			}
		})
	})
	t.Run("ManyRowsInOneSweepWhenTheyAreDone", func(t *testing.T) {
		t.Parallel()
		db := setup(t, storetest.SQLite(t))
		for i := range 1100 {
			mustPutUpload(t, db, upload(fmt.Sprint("u", i), "alice", "public", 1))
		}
		relay := db.NewRelay(due, map[string]record.OutboxHandler{
			record.KindUpload: func(_ context.Context, rows []record.OutboxRow) ([]string, error) { return ids(rows), nil },
		})
		storetest.Must(t, relay.Sweep(t.Context()))
		if n := mustCount(t, db, "outbox"); n != 0 {
			t.Fatalf("%d rows are left", n)
		}
	})
	t.Run("OpenRowsHoldUpNoOthers", func(t *testing.T) {
		t.Parallel()
		db := setup(t, storetest.SQLite(t))
		for i := range 1100 {
			mustPutUpload(t, db, upload(fmt.Sprint("u", i), "alice", "public", 1))
		}
		seen := map[string]int{}
		relay := db.NewRelay(due, map[string]record.OutboxHandler{
			record.KindUpload: func(_ context.Context, rows []record.OutboxRow) ([]string, error) {
				for _, r := range rows {
					seen[r.ID]++
				}
				return nil, nil
			},
		})
		for range 4 { // three pages, and the first again
			storetest.Must(t, relay.Sweep(t.Context()))
		}
		if len(seen) != 1100 {
			t.Fatalf("%d of 1100 rows were seen", len(seen))
		}
	})
	t.Run("OneKindThatFailsStopsNoOther", func(t *testing.T) {
		t.Parallel()
		eachRecord(t, func(t *testing.T, db *record.DB) {
			mustPut(t, db, "alice", token(1)) // a row of each kind
			var settings atomic.Int64
			relay := db.NewRelay(due, map[string]record.OutboxHandler{
				record.KindGuard: func(context.Context, []record.OutboxRow) ([]string, error) { return nil, errHeldUp },
				record.KindSettings: func(_ context.Context, rows []record.OutboxRow) ([]string, error) {
					settings.Add(1)
					return ids(rows), nil
				},
			})
			if err := relay.Sweep(t.Context()); !errors.Is(err, errHeldUp) || settings.Load() != 1 || mustCount(t, db, "outbox") != 1 {
				t.Fatalf("%v, %d calls", err, settings.Load())
			}
		})
	})
}
