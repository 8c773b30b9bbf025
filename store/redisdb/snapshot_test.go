package redisdb_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// binary is a value that is no text.
const binary = "\x00\xff\r\n\"'é"

// mustOpenSnapshot opens an embedded Redis with a snapshot, and reads it.
func mustOpenSnapshot(t *testing.T, file string, log *storetest.Lines) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(t.Context(), redisdb.Options{URL: "embedded", Timeout: 20 * time.Second, Snapshot: file, Logger: slog.New(slog.NewTextHandler(log, nil))})
	storetest.Must(t, err)
	storetest.Must(t, db.Load(t.Context()))
	return db
}

// mustFill writes values of every type that fanfare uses, with their special cases.
func mustFill(t *testing.T, c redisdb.Client) {
	t.Helper()
	many, fields, scores := []any{"RPUSH", "list:long"}, []any{"HSET", "hash:long"}, []any{"ZADD", "scores:long"}
	for i := range 1500 {
		many, fields, scores = append(many, i), append(fields, fmt.Sprint("f", i), i), append(scores, i, fmt.Sprint("m", i))
	}
	for _, command := range [][]any{
		{"SET", "text", "v"}, {"SET", "empty", ""}, {"SET", binary, binary}, {"SET", "short", "v", "PX", 3600_000}, {"SET", "gone", "v", "PX", 5},
		{"HSET", "hash", "a", "1", "b", binary, binary, "", "", "x"}, {"PEXPIRE", "hash", 7200_000},
		{"RPUSH", "list", "b", "a", "b", binary}, many, fields, scores,
		{"SADD", "set", "a", "b", binary},
		{"ZADD", "scores", "1", "a", "-0.1", "b", "1700000000123", "c", "1e300", "d", "0.30000000000000004", "e", "inf", "f", "-inf", "g", "3", ""},
		{"XADD", "stream", "1700000000000-0", "f", "1", "g", binary}, {"XADD", "stream", "1700000000000-1", "f", "2"}, {"XADD", "stream", "1700000000001-0", "f", "3"},
		{"XADD", "stream", "1700000000002-0", "f", "4"}, {"XADD", "stream", "9900000000000-7", "f", "5"},
		{"XGROUP", "CREATE", "stream", "workers", "0"}, {"XGROUP", "CREATE", "stream", "others", "1700000000001-0"},
		{"XGROUP", "CREATECONSUMER", "stream", "workers", "idle"},
		{"XREADGROUP", "GROUP", "workers", "one", "COUNT", 2, "STREAMS", "stream", ">"}, {"XREADGROUP", "GROUP", "workers", "two", "COUNT", 2, "STREAMS", "stream", ">"},
		{"XACK", "stream", "workers", "1700000000000-0"}, {"XCLAIM", "stream", "workers", "two", 0, "1700000000000-1", "IDLE", 60_000, "RETRYCOUNT", 4},
		{"XDEL", "stream", "1700000000001-0", "9900000000000-7"}, // one of them is pending, the other the last
		{"XGROUP", "CREATE", "quiet", "workers", "$", "MKSTREAM"},
		{"XADD", "emptied", "9900000000000-3", "f", "1"}, {"XGROUP", "CREATE", "emptied", "workers", "$"}, {"XDEL", "emptied", "9900000000000-3"},
	} {
		if err := c.Do(t.Context(), command...).Err(); err != nil {
			t.Fatalf("%q: %v", command[:2], err)
		}
	}
}

// describe lists everything in a Redis, one value a line. Times to live and idle times are rounded to
// minutes.
func describe(t *testing.T, c redisdb.Client) string {
	t.Helper()
	ctx := t.Context()
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, key := range c.Keys(ctx, "*").Val() {
		kind := c.Type(ctx, key).Val()
		ttl, err := c.PTTL(ctx, key).Result()
		storetest.Must(t, err)
		say("%q is a %s, for %v", key, kind, ttl.Round(time.Minute))
		switch kind {
		case "string":
			say("%q = %q", key, c.Get(ctx, key).Val())
		case "hash":
			var fields []string
			for field, value := range c.HGetAll(ctx, key).Val() {
				fields = append(fields, fmt.Sprintf("%q = %q", field, value))
			}
			slices.Sort(fields)
			say("%q: %s", key, summary(fields))
		case "list":
			say("%q: %s", key, summary(c.LRange(ctx, key, 0, -1).Val()))
		case "set":
			members := c.SMembers(ctx, key).Val()
			slices.Sort(members)
			say("%q = %q", key, members)
		case "zset":
			var members []string
			for _, z := range c.ZRangeWithScores(ctx, key, 0, -1).Val() {
				members = append(members, fmt.Sprintf("%q = %g", z.Member, z.Score))
			}
			say("%q: %s", key, summary(members))
		case "stream":
			out = append(out, describeStream(t, c, key)...)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// summary is the values themselves, or their number and a digest if they are many.
func summary(values []string) string {
	if len(values) > 20 {
		return fmt.Sprintf("%d, %x", len(values), sha256.Sum256([]byte(strings.Join(values, "|"))))
	}
	return fmt.Sprintf("%q", values)
}

func describeStream(t *testing.T, c redisdb.Client, key string) (out []string) {
	t.Helper()
	ctx := t.Context()
	for _, entry := range c.XRange(ctx, key, "-", "+").Val() {
		out = append(out, fmt.Sprintf("%q has %s: %q", key, entry.ID, entry.Values))
	}
	info, err := c.Do(ctx, "XINFO", "STREAM", key).Slice()
	storetest.Must(t, err)
	for i := 0; i+1 < len(info); i += 2 {
		if info[i] == "last-generated-id" {
			last := cmp.Or(fmt.Sprint(info[i+1]), "0-0")
			out = append(out, fmt.Sprintf("%q ends with %s", key, last))
		}
	}
	groups, err := c.XInfoGroups(ctx, key).Result()
	storetest.Must(t, err)
	for _, g := range groups {
		out = append(out, fmt.Sprintf("%q has group %s at %s", key, g.Name, g.LastDeliveredID))
		for _, consumer := range c.XInfoConsumers(ctx, key, g.Name).Val() {
			out = append(out, fmt.Sprintf("%q %s has consumer %s", key, g.Name, consumer.Name))
		}
		for _, p := range c.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: key, Group: g.Name, Start: "-", End: "+", Count: 100}).Val() {
			if p.ID != "1700000000001-0" { // deleted: it is not kept
				out = append(out, fmt.Sprintf("%q %s: %s is with %s for %v, %d times", key, g.Name, p.ID, p.Consumer, p.Idle.Round(time.Minute), p.RetryCount))
			}
		}
	}
	return out
}

// What an embedded Redis had at a clean stop is there at the next start: in itself, and in a real
// Redis that takes its place.
func TestSnapshotKeepsEverything(t *testing.T) {
	t.Parallel()
	file, log := filepath.Join(t.TempDir(), "data", "snapshot"), &storetest.Lines{}
	db := mustOpenSnapshot(t, file, log)
	mustFill(t, db.Client())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- db.Run(ctx) }()
	storetest.Eventually(t, 20*time.Second, "a key expires", func() bool { return db.Client().Exists(t.Context(), "gone").Val() == 0 })
	cancel()
	storetest.Must(t, <-done)
	want := describe(t, db.Client())
	storetest.Must(t, db.Close())
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the snapshot: %v, %v", info.Mode(), err)
	}

	again := mustOpenSnapshot(t, file, log)
	if got := describe(t, again.Client()); got != want {
		t.Errorf("after the next start there is\n%s\nwant\n%s", got, want)
	}
	storetest.Must(t, again.Close())

	t.Run("RealRedis", func(t *testing.T) {
		server := storetest.Redis(t)
		other, err := redisdb.Open(t.Context(), redisdb.Options{URL: server.URL(), Snapshot: file})
		storetest.Must(t, err)
		defer other.Close()
		storetest.Must(t, other.Load(t.Context()))
		if got := describe(t, other.Client()); got != want {
			t.Errorf("in a real Redis there is\n%s\nwant\n%s", got, want)
		}
	})
	if strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("it said:\n%s", log.String())
	}
}

// DropSnapshot removes the snapshot, so that a crash does not bring back an old state. A stop before Load, or
// before DropSnapshot, leaves it as it is.
func TestSnapshotIsReadOnce(t *testing.T) {
	t.Parallel()
	file, log := filepath.Join(t.TempDir(), "snapshot"), &storetest.Lines{}
	db := mustOpenSnapshot(t, file, log)
	storetest.Must(t, db.Client().Set(t.Context(), "k", "v", 0).Err())
	storetest.Must(t, db.Close())

	early, err := redisdb.Open(t.Context(), redisdb.Options{URL: "embedded", Snapshot: file})
	storetest.Must(t, err)
	storetest.Must(t, early.Close()) // its start failed before Load

	db = mustOpenSnapshot(t, file, log)
	if _, err := os.Stat(file); err != nil {
		t.Errorf("Load removed it: %v", err)
	}
	storetest.Must(t, db.DropSnapshot())
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the snapshot is not removed: %v", err)
	}
	if got := db.Client().Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("k is %q", got)
	}
	storetest.Must(t, db.Close())
}

// A snapshot that is torn, damaged or of another form is told of and put aside, and Redis begins
// empty. So is one beside data that came from elsewhere.
func TestSnapshotThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	db := mustOpenSnapshot(t, whole, &storetest.Lines{})
	mustFill(t, db.Client())
	storetest.Must(t, db.Close())
	text, err := os.ReadFile(whole)
	storetest.Must(t, err)
	var newer bytes.Buffer
	packed := gzip.NewWriter(&newer)
	storetest.Must(t, gob.NewEncoder(packed).Encode(struct{ Form int }{2}))
	storetest.Must(t, packed.Close())
	for name, tc := range map[string]struct {
		text []byte
		want string
	}{
		"Torn":    {text[:len(text)-9], "unexpected EOF"},
		"Empty":   {nil, "EOF"},
		"Half":    {text[:len(text)/2], "unexpected EOF"},
		"Damaged": {append(slices.Clone(text[:len(text)-6]), 1, 2, 3, 4, 5, 6), "checksum"},
		"Newer":   {newer.Bytes(), "another version of fanfare wrote it"},
		"Text":    {[]byte("hello, this is not one"), "invalid header"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, log := filepath.Join(t.TempDir(), "snapshot"), &storetest.Lines{}
			storetest.Must(t, os.WriteFile(file, tc.text, 0o600))
			db := mustOpenSnapshot(t, file, log)
			if n := db.Client().DBSize(t.Context()).Val(); n != 0 {
				t.Errorf("there are %d keys", n)
			}
			if said := log.String(); !strings.Contains(said, "put aside") || !strings.Contains(said, tc.want) {
				t.Errorf("it lacks %q:\n%s", tc.want, said)
			}
			aside, err := filepath.Glob(file + ".2*")
			storetest.Must(t, err)
			if len(aside) != 1 {
				t.Fatalf("put aside: %q", aside)
			}
			if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(kept, tc.text) {
				t.Errorf("what was put aside has changed: %v", err)
			}
			storetest.Must(t, db.Client().Set(t.Context(), "k", "v", 0).Err())
			storetest.Must(t, db.Close())
			db = mustOpenSnapshot(t, file, log)
			if got := db.Client().Get(t.Context(), "k").Val(); got != "v" {
				t.Errorf("after the next start k is %q", got)
			}
			storetest.Must(t, db.Close())
		})
	}
}

// A snapshot of more commands than fit into the buffers of a connection is read, and a start that was killed in the middle of
// it leaves no half.
func TestSnapshotOfManyCommands(t *testing.T) {
	t.Parallel()
	const n = 200_000 // each is answered with its id
	file, log := filepath.Join(t.TempDir(), "snapshot"), &storetest.Lines{}
	var text bytes.Buffer
	packed := gzip.NewWriter(&text)
	enc := gob.NewEncoder(packed)
	storetest.Must(t, enc.Encode(struct {
		Form  int
		Taken time.Time
	}{1, time.Now()}))
	for i := range n {
		storetest.Must(t, enc.Encode([]string{"XADD", "numbers", fmt.Sprint("1700000000000000000-", 1700000000000000000+i), "f", "v"}))
	}
	storetest.Must(t, enc.Encode([]string{}))
	storetest.Must(t, packed.Close())
	storetest.Must(t, os.WriteFile(file, text.Bytes(), 0o600))
	db, err := redisdb.Open(t.Context(), redisdb.Options{URL: "embedded", Timeout: 20 * time.Second, Snapshot: file, Logger: slog.New(slog.NewTextHandler(log, nil))})
	storetest.Must(t, err)
	storetest.Must(t, db.Client().MSet(t.Context(), "ff:loading", "1", "half", "v").Err())
	storetest.Must(t, db.Load(t.Context()))
	if keys, got := db.Client().Keys(t.Context(), "*").Val(), db.Client().XLen(t.Context(), "numbers").Val(); len(keys) != 1 || got != n {
		t.Errorf("%d of %d values, and the keys %v; it said:\n%s", got, n, keys, log.String())
	}
	storetest.Must(t, os.Remove(file)) // nothing is to be written that takes as long again
	storetest.Must(t, db.Client().FlushAll(t.Context()).Err())
	storetest.Must(t, db.Close())
}

// A Redis that has data keeps it, and the snapshot is put aside.
func TestSnapshotDoesNotReplaceData(t *testing.T) {
	t.Parallel()
	file, log := filepath.Join(t.TempDir(), "snapshot"), &storetest.Lines{}
	db := mustOpenSnapshot(t, file, log)
	storetest.Must(t, db.Client().Set(t.Context(), "k", "old", 0).Err())
	storetest.Must(t, db.Close())
	server := storetest.Redis(t)
	storetest.Must(t, server.Client().Set(t.Context(), "k", "new", 0).Err())
	other, err := redisdb.Open(t.Context(), redisdb.Options{URL: server.URL(), Snapshot: file, Logger: slog.New(slog.NewTextHandler(log, nil))})
	storetest.Must(t, err)
	defer other.Close()
	storetest.Must(t, other.Load(t.Context()))
	if got := server.Client().Get(t.Context(), "k").Val(); got != "new" || !strings.Contains(log.String(), "Redis has data already") {
		t.Errorf("k is %q; it said:\n%s", got, log.String())
	}
}

// A snapshot that cannot be written is told of.
func TestSnapshotThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), &storetest.Lines{}
	file := filepath.Join(dir, "folder", "snapshot")
	db := mustOpenSnapshot(t, file, log)
	storetest.Must(t, os.WriteFile(filepath.Join(dir, "folder"), nil, 0o600)) // no folder can be made there
	storetest.Must(t, db.Client().Set(t.Context(), "k", "v", 0).Err())
	storetest.Must(t, db.Close())
	if !strings.Contains(log.String(), "the snapshot of Redis cannot be written") {
		t.Errorf("it said:\n%s", log.String())
	}
}
