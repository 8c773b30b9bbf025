package record_test

import (
	"testing"

	"fanfare/store/record"
)

// Server and name tell the databases on servers apart, whatever user, password and options a URL has.
func TestServerDatabase(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"mysql://u:secret@DB.example/Shop":                         "db.example:3306/Shop",
		"mysql://other:secret@db.example:3306/Shop?tls=preferred":  "db.example:3306/Shop",
		"mysql://u:secret@db.example:3307/Shop":                    "db.example:3307/Shop",
		"mysql://u:secret@[::1]/shop":                              "[::1]:3306/shop",
		"postgres://u:secret@DB.example/Shop":                      "db.example:5432/Shop",
		"postgresql://u:secret@db.example:5432/Shop?sslmode=allow": "db.example:5432/Shop",
		"postgres://u:secret@[::1]:6432/shop":                      "[::1]:6432/shop",
		"sqlite:shop.db":                                           "",
		"mysql://u:secret@h":                                       "",
	} {
		if got := record.ServerDatabase(raw); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}
