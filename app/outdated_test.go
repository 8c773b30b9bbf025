package app

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// The note of another Redis is whole from the moment on at which it is there, also if several processes write it at once: one
// that is killed meanwhile must not leave half of it. The first note counts.
func TestOtherRedisIsNotedAtOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	want := "fanfare has used another Redis (FANFARE_REDIS_URL) since 2026-11-30T12:00:00Z"
	for range 100 {
		c := &config{DatabaseURL: "sqlite:" + filepath.Join(t.TempDir(), "fanfare.db")}
		storetest.Must(t, os.MkdirAll(filepath.Join(c.dataFolder(), "appendonlydir"), 0o700))
		note := filepath.Join(c.dataFolder(), outdatedFile)
		var writers sync.WaitGroup
		for range 3 {
			writers.Go(func() {
				if err := c.noteOtherRedis(now); err != nil {
					t.Error(err)
				}
			})
		}
		done := make(chan struct{})
		go func() { writers.Wait(); close(done) }()
		for writing := true; writing; {
			select {
			case <-done:
				writing = false
			default:
			}
			if text, err := os.ReadFile(note); err == nil && string(text) != want {
				t.Fatalf("the note says %q", text)
			}
		}
		storetest.Must(t, c.noteOtherRedis(now.Add(time.Hour)))
		text, err := os.ReadFile(note)
		storetest.Must(t, err)
		if left, _ := filepath.Glob(filepath.Join(c.dataFolder(), "*")); string(text) != want || len(left) != 2 {
			t.Fatalf("the note says %q, and beside it there is %q", text, left)
		}
	}
}

// A folder that cannot be read is not taken for one without data: a start with another Redis says what to do.
func TestOtherRedisBesideAFolderThatCannotBeRead(t *testing.T) {
	t.Parallel()
	c := &config{DatabaseURL: "sqlite:" + filepath.Join(t.TempDir(), "fanfare.db")}
	storetest.Must(t, c.noteOtherRedis(time.Now())) // without a folder there is nothing to note
	if _, err := os.Lstat(c.dataFolder()); !os.IsNotExist(err) {
		t.Errorf("a folder was made: %v", err)
	}
	storetest.Must(t, os.Symlink(c.dataFolder(), c.dataFolder())) // nobody can follow it, not even root
	err := c.noteOtherRedis(time.Now())
	if err == nil || !strings.Contains(err.Error(), c.dataFolder()+" may have the data of an embedded Redis") || !strings.Contains(err.Error(), "or move it away") {
		t.Errorf("%v", err)
	}
}

// A start is refused for old data that it would use. The note stays as long as there is data.
func TestOutdatedDataIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		left              []string // what embedded Redises have left
		inMemory          bool
		refused, noteGoes bool
	}{
		"Snapshot":             {[]string{snapshotFile}, true, true, false},
		"SnapshotForServer":    {[]string{snapshotFile}, false, true, false},
		"Server":               {[]string{"appendonlydir"}, false, true, false},
		"ServerInMemory":       {[]string{"appendonlydir"}, true, false, false},
		"BothInMemory":         {[]string{"appendonlydir", snapshotFile}, true, true, false},
		"Nothing":              {nil, false, false, true},
		"NothingInMemory":      {nil, true, false, true},
		"PutAside":             {[]string{"appendonlydir.20261130T120000.000Z"}, false, false, true},
		"SnapshotWasPutAside":  {[]string{snapshotFile + ".20261130T120000.000Z"}, true, false, true},
		"SnapshotByHalf":       {[]string{snapshotFile + ".new"}, true, false, true},
		"NoteByHalfAndNothing": {[]string{outdatedFile + ".1.new"}, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &config{DatabaseURL: "sqlite:" + filepath.Join(t.TempDir(), "fanfare.db")}
			storetest.Must(t, c.checkOutdated(tc.inMemory)) // there is no folder
			note := filepath.Join(c.dataFolder(), outdatedFile)
			for _, left := range tc.left {
				storetest.Must(t, os.MkdirAll(filepath.Join(c.dataFolder(), left), 0o700))
			}
			storetest.Must(t, os.MkdirAll(c.dataFolder(), 0o700))
			storetest.Must(t, c.checkOutdated(tc.inMemory)) // there is no note
			storetest.Must(t, os.WriteFile(note, []byte("text"), 0o600))
			if err := c.checkOutdated(tc.inMemory); (err != nil) != tc.refused {
				t.Errorf("%v", err)
			}
			if _, err := os.Stat(note); os.IsNotExist(err) != tc.noteGoes {
				t.Errorf("the note: %v", err)
			}
		})
	}
}
