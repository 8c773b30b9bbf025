package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// diary records what happened, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// worker is a loop that records when it stops.
func (d *diary) worker(name string) loop {
	return loop{name, func(ctx context.Context) error {
		<-ctx.Done()
		d.write(name)
		return nil
	}}
}

// The stop order is HTTP, delivery, jobs, Redis: the loop that started last stops first.
func TestStagesStopTheLastStageFirst(t *testing.T) {
	t.Parallel()
	c, d := newStages(slog.New(slog.DiscardHandler)), &diary{}
	ctx, cancel := context.WithCancel(t.Context())
	for _, name := range []string{"redis", "jobs", "delivery", "http"} {
		c.start(ctx, name, d.worker(name))
	}
	cancel() // SIGTERM ends ctx; the stages must outlive it
	if len(d.lines) != 0 {
		t.Fatalf("stopped with the signal: %v", d.lines)
	}
	if err := c.stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"http", "delivery", "jobs", "redis"}; !slices.Equal(d.lines, want) {
		t.Errorf("stopped in the order %v, want %v", d.lines, want)
	}
}

func TestStagesNameTheStageThatIsLate(t *testing.T) {
	t.Parallel()
	c, d := newStages(slog.New(slog.DiscardHandler)), &diary{}
	stuck := make(chan struct{})
	t.Cleanup(func() { close(stuck) })
	c.start(t.Context(), "redis", d.worker("redis"))
	c.start(t.Context(), "delivery", loop{"deaf", func(context.Context) error { <-stuck; return nil }})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.stop(ctx); err == nil || err.Error() != "delivery did not stop in time" {
		t.Errorf("got %v", err)
	}
}

func TestStagesReportALoopThatBreaks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"Error":  {errors.New("disk full"), "relay: disk full"},
		"Return": {nil, "relay: ended by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newStages(slog.New(slog.DiscardHandler))
			c.start(t.Context(), "jobs", loop{"relay", func(context.Context) error { return tc.err }})
			select {
			case err := <-c.broken:
				if err.Error() != tc.want {
					t.Errorf("got %v, want %s", err, tc.want)
				}
			case <-time.After(5 * time.Second):
				t.Error("nobody noticed")
			}
		})
	}
}

// HTTP contract: embedded Redis allows only one process, by a lock file beside the database.
func TestHold(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first, second string
		refused       string
	}{
		"TwoEmbedded":      {"", "embedded", "another fanfare runs on this database"},
		"RealBesideEmbed":  {"", "redis://h", "a fanfare with embedded Redis runs"},
		"EmbedBesideReal":  {"redis://h", "", "another fanfare runs on this database"},
		"TwoWithRealRedis": {"redis://h", "redis://h", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
			first, err := (&config{RedisURL: tc.first, DatabaseURL: database}).hold()
			if err != nil {
				t.Fatal(err)
			}
			second := &config{RedisURL: tc.second, DatabaseURL: database}
			_, err = second.hold()
			if (err == nil) != (tc.refused == "") || (err != nil && !strings.Contains(err.Error(), tc.refused)) {
				t.Errorf("got %v, want %q", err, tc.refused)
			}
			_ = first.Close()
			if held, err := second.hold(); err != nil {
				t.Errorf("still locked after the first ended: %v", err)
			} else {
				_ = held.Close()
			}
		})
	}
}

// A database that has two names by symbolic links has one lock, also before its file exists.
func TestHoldByAnotherName(t *testing.T) {
	t.Parallel()
	for name, links := range map[string]struct{ target, link, other string }{
		"File":          {"real/x.db", "y.db", "y.db"},
		"RelativeFile":  {"../real/x.db", "links/y.db", "links/y.db"},
		"Folder":        {"real", "z", "z/x.db"},
		"LinkToALink":   {"z/y.db", "w.db", "w.db"},
		"FolderOfALink": {"../real", "links/z", "links/z/x.db"},
		"Above":         {"real/deep", "z", "z/../x.db"},
		"LinkToAbove":   {"z/../x.db", "w.db", "w.db"},
	} {
		for _, exists := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, exists), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				in := func(name string) string { return filepath.Join(dir, name) }
				for _, folder := range []string{"real", "real/deep", "links"} {
					storetest.Must(t, os.Mkdir(in(folder), 0o700))
				}
				if exists {
					storetest.Must(t, os.WriteFile(in("real/x.db"), nil, 0o600))
				}
				if name == "LinkToALink" {
					storetest.Must(t, os.Symlink("real", in("z")))
					storetest.Must(t, os.Symlink("x.db", in("real/y.db")))
				}
				if name == "LinkToAbove" {
					storetest.Must(t, os.Symlink("real/deep", in("z")))
				}
				storetest.Must(t, os.Symlink(links.target, in(links.link)))
				first, err := (&config{DatabaseURL: "sqlite:" + in("real/x.db")}).hold()
				storetest.Must(t, err)
				defer first.Close()
				if second, err := (&config{DatabaseURL: "sqlite:" + dir + "/" + links.other + "?x"}).hold(); err == nil {
					_ = second.Close()
					t.Error("both have the lock")
				}
			})
		}
	}
}
