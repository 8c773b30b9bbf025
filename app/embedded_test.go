package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"fanfare/store/storetest"
)

// The data of an embedded Redis lies beside an SQLite database, under its name, so that two databases in one folder
// do not share it. Databases of one kind on servers do, in the working directory.
func TestDataFolder(t *testing.T) {
	t.Parallel()
	for database, want := range map[string]string{
		"sqlite:fanfare.db":           "fanfare-data",
		"sqlite:/var/lib/shop.db?x=1": "/var/lib/shop-data",
		"sqlite:shop.sqlite":          "shop.sqlite.data",
		"sqlite:/var/lib/shop":        "/var/lib/shop.data", // and not that of shop.db
		"sqlite:shop-data.db":         "shop-data-data",
		"mysql://u:p@h:3306/n":        "fanfare-mysql-data",
		"mysql://u:p@h:3306/other":    "fanfare-mysql-data",
		"postgres://u:p@h/n":          "fanfare-postgres-data",
		"postgresql://u:p@h/n":        "fanfare-postgres-data",
	} {
		if got := (&config{DatabaseURL: database}).dataFolder(); got != want {
			t.Errorf("%s: %s, want %s", database, got, want)
		}
	}
}

// The snapshot of a Redis in memory is gone before anything is served or claimed, and a stop right then writes it again: what
// a crash leaves behind is never older than the database.
func TestTheSnapshotIsGoneBeforeAnythingIsServed(t *testing.T) {
	t.Parallel()
	c, err := parseConfig([]string{"FANFARE_EMBEDDED=memory", "FANFARE_DATABASE_URL=sqlite:" + filepath.Join(t.TempDir(), "x.db")})
	storetest.Must(t, err)
	for range 2 {
		a, err := build(t.Context(), c, slog.New(slog.DiscardHandler))
		storetest.Must(t, err)
		storetest.Must(t, a.prepare(t.Context()))
		if _, err := os.Stat(filepath.Join(c.dataFolder(), snapshotFile)); !os.IsNotExist(err) {
			t.Errorf("the snapshot is there: %v", err)
		}
		a.close()
		_, err = os.Stat(filepath.Join(c.dataFolder(), snapshotFile))
		storetest.Must(t, err)
	}
}

// An embedded server has a quarter of the memory that there is, and fanfare's own limit leaves room for it in a
// container.
func TestChildMemory(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for _, tc := range []struct{ container, machine, want int64 }{
		{0, 8 * gib, 2 * gib}, {4 * gib, 8 * gib, gib}, {4 * gib, 0, gib}, {16 * gib, 8 * gib, 2 * gib}, {0, 0, 0},
	} {
		if got := childMemory(tc.container, tc.machine); got != tc.want {
			t.Errorf("container %d, machine %d: %d, want %d", tc.container, tc.machine, got, tc.want)
		}
	}
	if limit := memoryLimit(4*gib-childMemory(4*gib, 8*gib), 8*gib); limit+gib > 4*gib {
		t.Errorf("fanfare may take %d of 4 GiB beside a server of 1 GiB", limit)
	}
}
