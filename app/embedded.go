package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/store/redisdb"
	"fanfare/store/redisdb/child"
)

// embeddedVariable names the variable that chooses the embedded Redis.
const embeddedVariable = "FANFARE_EMBEDDED"

// embeddedKind is the value of FANFARE_EMBEDDED.
type embeddedKind string

const (
	embeddedAuto   embeddedKind = "auto"
	embeddedRedis  embeddedKind = "redis"
	embeddedMemory embeddedKind = "memory"
)

// UnmarshalText reads the value.
func (k *embeddedKind) UnmarshalText(text []byte) error {
	switch *k = embeddedKind(text); *k {
	case embeddedAuto, embeddedRedis, embeddedMemory:
		return nil
	}
	return errors.New("is none of auto, redis, memory")
}

// dataFolder is where an embedded Redis keeps its data: beside an SQLite database, under the
// database's name, and in the working directory for any other database. No two databases have the same folder.
func (c *config) dataFolder() string {
	if scheme, _, _ := strings.Cut(c.DatabaseURL, ":"); scheme != "sqlite" {
		return "fanfare-" + strings.Replace(scheme, "postgresql", "postgres", 1) + "-data"
	}
	name := strings.TrimSuffix(c.lockFile(), ".lock")
	if short, ok := strings.CutSuffix(name, ".db"); ok {
		return short + "-data"
	}
	return name + ".data"
}

// The names in the folder that are not of package child: what a Redis in memory had at its last clean stop, and a note that the
// folder's data is older than the database.
const (
	snapshotFile = "memory.snapshot"
	outdatedFile = "outdated"
)

// hasOldData reports whether an embedded Redis has left data in the folder.
func hasOldData(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, snapshotFile))
	return err == nil || child.HasData(folder)
}

// noteOtherRedis notes, beside data that an embedded Redis has left for this database, that another Redis is used from now on.
func (c *config) noteOtherRedis(now time.Time) error {
	folder := c.dataFolder()
	if !hasOldData(folder) {
		return nil
	}
	note, err := os.OpenFile(filepath.Join(folder, outdatedFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = fmt.Fprintf(note, "fanfare has used another Redis (FANFARE_REDIS_URL) since %s", now.UTC().Format(time.RFC3339))
		err = errors.Join(err, note.Close())
	}
	if err != nil {
		return fmt.Errorf("FANFARE_REDIS_URL: %s has the data of an embedded Redis, and it cannot be noted that another one is used from now on: %w; move the folder away", folder, err)
	}
	return nil
}

// checkOutdated refuses the data of an embedded Redis if another one was used since. It would bring back what was done or
// erased meanwhile, and send old events; but it may also be all there is of chats and values.
func (c *config) checkOutdated() error {
	folder := c.dataFolder()
	note := filepath.Join(folder, outdatedFile)
	text, err := os.ReadFile(note)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !hasOldData(folder):
		return os.Remove(note)
	}
	return fmt.Errorf("the data in %s is older than the database: %s; it would bring back what was done or erased since, and send old events; move the folder away to start with an empty Redis, or delete %s to go on with that data", folder, text, note)
}

// openEmbedded chooses the embedded Redis, and completes the options of its clients. It starts
// nothing.
func (a *app) openEmbedded(ctx context.Context, o *redisdb.Options) error {
	folder := a.config.dataFolder()
	o.Snapshot = filepath.Join(folder, snapshotFile)
	program, why := a.config.findServer(ctx, folder)
	if why == nil {
		server, err := child.New(child.Options{Program: program, Folder: folder, MaxMemory: childMemory(containerMemory(), machineMemory()), Logger: a.log})
		if err != nil {
			return fmt.Errorf("%s: %w", embeddedVariable, err)
		}
		a.child, o.Socket, o.Password = server, server.Socket(), server.Password()
		return nil
	}
	if a.config.Embedded == embeddedRedis {
		return fmt.Errorf("%s: %w", embeddedVariable, why)
	}
	if child.HasData(folder) && a.config.Embedded != embeddedMemory {
		return fmt.Errorf("%s: %s has the data of a redis-server or valkey-server, which cannot be used: %w; install it again, or set %s=memory to start without that data", embeddedVariable, folder, why, embeddedVariable)
	}
	a.whyMemory = why.Error()
	return nil
}

// findServer is the program for the child, or the reason why Redis is in memory.
func (c *config) findServer(ctx context.Context, folder string) (child.Program, error) {
	if c.Embedded == embeddedMemory {
		return child.Program{}, errors.New(embeddedVariable + "=memory")
	}
	return child.Find(ctx, folder)
}

// startEmbedded starts the child, if there is one, and reads the snapshot of an embedded Redis.
func (a *app) startEmbedded(ctx context.Context) error {
	if err := a.config.checkOutdated(); err != nil {
		return fmt.Errorf("%s: %w", embeddedVariable, err)
	}
	start, begun := a.lockMemory, a.putAside
	if a.child != nil {
		start, begun = a.child.Start, func(context.Context) error { return nil }
	}
	if err := start(ctx); err != nil {
		return fmt.Errorf("%s: %w", embeddedVariable, err)
	}
	err := a.redis.Load(ctx)
	if err == nil {
		err = begun(ctx)
	}
	switch {
	case errors.Is(err, redisdb.ErrNoRoom):
		return fmt.Errorf("%s: %w; give it more memory, start with %s=memory as before, or move the file away to start with an empty Redis", embeddedVariable, err, embeddedVariable)
	case err != nil:
		return fmt.Errorf("%s: %w", embeddedVariable, err)
	}
	return nil
}

// lockMemory locks the folder for a Redis in memory.
func (a *app) lockMemory(context.Context) (err error) {
	a.folder, err = child.Lock(a.config.dataFolder())
	return err
}

// putAside is called when the Redis in memory has what its snapshot had. From now on the data that a server has in the folder
// is older than the database, so it is put aside: a later server would bring back what was erased or done meanwhile.
func (a *app) putAside(ctx context.Context) error {
	folder := a.config.dataFolder()
	if !child.HasData(folder) {
		return nil
	}
	aside, err := child.PutAside(ctx, folder, a.log)
	if err == nil {
		a.log.WarnContext(ctx, "the embedded Redis starts without the data of the server that was used before, which is put aside", "file", aside)
	}
	return err
}

// embeddedRestarts counts how often the embedded server was started again.
func (a *app) embeddedRestarts() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "fanfare_embedded_redis_restarts_total", Help: "How often the embedded redis-server ended by itself and was started again.",
	}, func() float64 {
		if a.child == nil {
			return 0
		}
		return float64(a.child.Restarts())
	})
}

// embeddedNote says what keeps the embedded Redis' data, and what is lost when. Callers without a key
// do not learn the folder.
func (a *app) embeddedNote(toOperator bool) string {
	where := ""
	if folder := a.config.dataFolder(); toOperator {
		where = ", in " + folder + string(os.PathSeparator)
	}
	if a.child != nil {
		return fmt.Sprintf("Redis is embedded, for this one process: %s runs as its child and keeps its data%s; a stop or a crash of fanfare loses nothing of it, a crash of the machine at most the last two seconds", a.child.Program(), where)
	}
	return fmt.Sprintf("Redis is embedded, in the memory of this one process (%s): a clean stop keeps what it has%s, a crash loses all of it: %s", a.whyMemory, where, onlyInRedis)
}

// onlyInRedis is what is lost with Redis' data.
const onlyInRedis = "queued work and dead letters, reports of events, jobs, locks, values, counters, chats, " +
	"open holds of sales and Idempotency-Keys of events, chats and sales; the database keeps event types, devices, preferences, contacts, uploads, sales, orders, schedules, webhooks, API keys, and the keys and revocations of user tokens"
