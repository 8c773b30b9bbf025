package redisdb

import (
	"compress/gzip"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// A snapshot is a compressed sequence of values of encoding/gob: a snapshotHeader, then the
// commands that make the data again, each a []string, and an empty command at the end. The
// compression has a checksum.

// loadTimeout bounds the transaction that makes the data of a snapshot.
const loadTimeout = 10 * time.Minute

// snapshotForm is the form of the snapshots that this version writes and reads.
const snapshotForm = 1

type snapshotHeader struct {
	Form  int
	Taken time.Time
}

// ErrNoRoom is in the chain of Load's error for a snapshot that is larger than the server's maxmemory.
var ErrNoRoom = errors.New("the server's maxmemory is too small for it")

// errForm says that another version wrote a snapshot.
var errForm = errors.New("another version of fanfare wrote it, in another form")

// Load brings what the snapshot has into Redis, if there is one. While it does, Redis has a mark, and
// whoever finds the mark begins anew: an error or a crash leaves no half. A snapshot that cannot be read
// is kept under another name, and Redis stays as it is. So is one for a Redis that has data already. Load is called before anything else uses Redis, and may be called again after an
// error.
func (db *DB) Load(ctx context.Context) error {
	if db.o.Snapshot == "" || db.loaded {
		return nil
	}
	commands, taken, err := readSnapshot(db.o.Snapshot)
	if errors.Is(err, fs.ErrNotExist) {
		db.loaded = true
		return nil
	}
	if err != nil {
		return db.putAside(ctx, err.Error())
	}
	client := db.client.(*redis.Client).WithTimeout(loadTimeout)
	if half, err := client.Exists(ctx, loadMark).Result(); err != nil {
		return db.Err(err, Read)
	} else if half > 0 {
		if err := client.FlushAll(ctx).Err(); err != nil {
			return db.Err(err, Write)
		}
	}
	if size, err := client.DBSize(ctx).Result(); err != nil {
		return db.Err(err, Read)
	} else if size > 0 {
		return db.putAside(ctx, "Redis has data already")
	}
	if err := db.loadAll(ctx, client, commands); redis.HasErrorPrefix(err, "OOM ") {
		return fmt.Errorf("load %s: %w (%s bytes)", db.o.Snapshot, ErrNoRoom, client.ConfigGet(ctx, "maxmemory").Val()["maxmemory"])
	} else if err != nil {
		return fmt.Errorf("load %s: %w", db.o.Snapshot, db.Err(err, Write))
	}
	db.loaded = true
	db.o.Logger.InfoContext(ctx, "the snapshot of Redis was read", "commands", len(commands), "age", time.Since(taken).Round(time.Millisecond))
	return nil
}

// loadBatch is how many commands of a snapshot are sent before their answers are read. With many more, client and
// server would wait for each other to read.
const loadBatch = 500

// loadAll runs the commands of a snapshot. At the end a server that writes to a disk has written them: the snapshot is
// removed soon.
func (db *DB) loadAll(ctx context.Context, client Client, commands [][]string) error {
	if err := client.Set(ctx, loadMark, "1", 0).Err(); err != nil {
		return err
	}
	for batch := range slices.Chunk(commands, loadBatch) {
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, c := range batch {
				pipe.Do(ctx, anySlice(c)...)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if db.embedded == nil { // the next command is answered once all is on the disk
		if err := client.ConfigSet(ctx, "appendfsync", "always").Err(); err != nil {
			return err
		}
	}
	if err := client.Del(ctx, loadMark).Err(); err != nil || db.embedded != nil {
		return err
	}
	return client.ConfigSet(ctx, "appendfsync", "everysec").Err()
}

func anySlice(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

// putAside renames a snapshot that is not used.
func (db *DB) putAside(ctx context.Context, why string) error {
	aside := db.o.Snapshot + "." + time.Now().UTC().Format("20060102T150405.000Z")
	if err := os.Rename(db.o.Snapshot, aside); err != nil {
		return fmt.Errorf("put the snapshot of Redis aside: %w", err)
	}
	db.loaded = true
	db.o.Logger.ErrorContext(ctx, "the snapshot of Redis is not used, and is put aside", "file", aside, "reason", why)
	return nil
}

// DropSnapshot removes the snapshot that Load has read. It is called before anything changes what it has. After a crash it
// would be older than the database: what was erased would be there again, and what was done would be done
// again. So Redis begins empty then.
func (db *DB) DropSnapshot() error {
	if db.o.Snapshot == "" {
		return nil
	}
	if err := os.Remove(db.o.Snapshot); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("remove the snapshot of Redis: %w", err)
	}
	return SyncFolder(db.o.Snapshot)
}

// writeSnapshot replaces the snapshot by what the embedded Redis has. Before Load there is nothing to
// write, and the snapshot stays.
func (db *DB) writeSnapshot() {
	if !db.loaded {
		return
	}
	began := time.Now()
	commands, err := db.tryWriteSnapshot()
	if err == nil {
		db.o.Logger.Info("the snapshot of Redis was written", "commands", commands, "took", time.Since(began).Round(time.Millisecond))
	} else {
		db.o.Logger.Error("the snapshot of Redis cannot be written: what only Redis had is lost", "file", db.o.Snapshot, "error", err)
	}
}

// tryWriteSnapshot returns how many commands it wrote.
func (db *DB) tryWriteSnapshot() (int, error) {
	commands, err := db.embedded.commands(db.embedded.ctx, db.client)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Dir(db.o.Snapshot), 0o700); err != nil {
		return 0, err
	}
	fresh := db.o.Snapshot + ".new"
	file, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(encodeSnapshot(file, commands), file.Sync(), file.Close()); err != nil {
		return 0, errors.Join(err, os.Remove(fresh))
	}
	if err := os.Rename(fresh, db.o.Snapshot); err != nil {
		return 0, err
	}
	return len(commands), SyncFolder(db.o.Snapshot)
}

// SyncFolder waits until the disk has the name of a file, or its removal. So a crash of the machine does not undo it.
func SyncFolder(file string) error {
	folder, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func encodeSnapshot(w io.Writer, commands [][]string) error {
	packed, err := gzip.NewWriterLevel(w, gzip.BestSpeed) // a stop waits for it
	if err != nil {
		return err
	}
	enc := gob.NewEncoder(packed)
	if err := enc.Encode(snapshotHeader{snapshotForm, time.Now()}); err != nil {
		return err
	}
	for _, c := range append(commands, []string{}) {
		if err := enc.Encode(c); err != nil {
			return err
		}
	}
	return packed.Close()
}

// readSnapshot reads a whole snapshot. It returns an error unless the file is complete.
func readSnapshot(path string) (commands [][]string, taken time.Time, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, taken, err
	}
	defer func() { _ = file.Close() }()
	packed, err := gzip.NewReader(file)
	if err != nil {
		return nil, taken, err
	}
	dec := gob.NewDecoder(packed)
	var header snapshotHeader
	if err := dec.Decode(&header); err != nil {
		return nil, taken, err
	}
	if header.Form != snapshotForm {
		return nil, taken, errForm
	}
	for {
		var c []string
		if err := dec.Decode(&c); err != nil {
			return nil, taken, err
		}
		if len(c) == 0 {
			break
		}
		commands = append(commands, c)
	}
	_, err = io.Copy(io.Discard, packed) // the checksum is at the end
	return commands, header.Taken, err
}
