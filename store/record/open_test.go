package record_test

import (
	"context"
	"testing"

	"fanfare/store/record"
	"fanfare/store/storetest"
)

// The first connections to a new file all want to switch it to WAL. SQLite tells
// those who come second that it is busy, without waiting: that must be no error.
func TestOpen_EightAtOnceOnANewFile(t *testing.T) {
	t.Parallel()
	for range 50 {
		url := storetest.EmptySQLite(t)
		starters := make([]*record.DB, 8)
		for i := range starters {
			starters[i] = mustOpen(t, record.Options{URL: url})
		}
		storetest.AtOnce(t, len(starters), func(ctx context.Context, i int) error { return starters[i].SQL().PingContext(ctx) })
	}
}
