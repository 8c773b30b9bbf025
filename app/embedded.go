package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

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
// database's name, and in the working directory for any other database. No two SQLite databases have the same folder.
// Databases of one kind on servers have the same one as long as they are used from the same directory.
func (c *config) dataFolder() string {
	if scheme, _, _ := strings.Cut(c.DatabaseURL, ":"); scheme != "sqlite" {
		return "fanfare-" + strings.Replace(scheme, "postgresql", "postgres", 1) + "-data"
	}
	name := c.besideDatabase()
	if short, ok := strings.CutSuffix(name, ".db"); ok {
		return short + "-data"
	}
	return name + ".data"
}

// snapshotFile is the file in the folder with what a Redis in memory had at its last clean stop.
const snapshotFile = "memory.snapshot"

// openEmbedded chooses the embedded Redis, and completes the options of its clients. It starts
// nothing.
func (a *app) openEmbedded(ctx context.Context, o *redisdb.Options) error {
	folder := a.config.dataFolder()
	o.Snapshot = filepath.Join(folder, snapshotFile)
	program, why := a.config.findServer(ctx, folder)
	if why == nil {
		server, err := child.New(child.Options{Program: program, Folder: folder, MaxMemory: childMemory(containerMemory("/"), machineMemory()), Logger: a.log})
		if err != nil {
			return fmt.Errorf("%s: %w", embeddedVariable, err)
		}
		a.child, o.Socket, o.Password = server, server.Socket(), server.Password()
		return nil
	}
	if a.config.Embedded == embeddedRedis {
		return fmt.Errorf("%s: %w", embeddedVariable, why)
	}
	has, err := child.HasData(folder)
	if err != nil {
		return fmt.Errorf("%s: %w", embeddedVariable, err)
	}
	if has && a.config.Embedded != embeddedMemory {
		if err := a.config.checkOutdated(false); err != nil { // then there is more to say than that no server can be had
			return fmt.Errorf("%s: %w", embeddedVariable, err)
		}
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
	if err := a.config.checkOutdated(a.child == nil); err != nil {
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
	if has, err := child.HasData(folder); err != nil || !has {
		return err
	}
	aside, err := child.PutAside(ctx, folder, a.log)
	if err != nil {
		return err
	}
	a.log.WarnContext(ctx, "the embedded Redis starts without the data of the server that was used before, which is put aside", "file", aside)
	if err := redisdb.SyncFolder(aside); err != nil { // the note about the data must not be gone first
		return err
	}
	return a.config.dropNote()
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
