package app

import (
	"testing"
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
