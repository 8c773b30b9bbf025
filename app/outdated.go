package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/redisdb/child"
)

// outdatedFile is the note, in the folder of an embedded Redis, that the folder's data is older than the database. For a
// database on a server the name goes on, see outdatedNote.
const outdatedFile = "outdated"

// outdatedNote is the absolute path of the note, because a refusal may be read in another directory. Databases on servers may
// share the folder, so the note's name has address and name of its database: it is about no other one.
func (c *config) outdatedNote() (string, error) {
	name := outdatedFile
	if database := record.ServerDatabase(c.DatabaseURL); database != "" {
		name += "-" + strings.ReplaceAll(database, "/", "-")
	}
	return filepath.Abs(filepath.Join(c.dataFolder(), name))
}

// oldData reports what embedded Redises have left in the folder: one in memory its snapshot, and a server its data.
func oldData(folder string) (snapshot, server bool, err error) {
	_, err = os.Stat(filepath.Join(folder, snapshotFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, false, err
	}
	snapshot = err == nil
	server, err = child.HasData(folder)
	return snapshot, server, err
}

// noteOtherRedis notes, beside data that an embedded Redis has left for this database, that another Redis is used from now on.
// Several processes may do so at once.
func (c *config) noteOtherRedis(now time.Time) error {
	note, err := c.outdatedNote()
	if err != nil {
		return err
	}
	folder := filepath.Dir(note)
	snapshot, server, err := oldData(folder)
	if err == nil && (snapshot || server) {
		err = writeNote(note, "fanfare has used another Redis (FANFARE_REDIS_URL) since "+now.UTC().Format(time.RFC3339))
	}
	if err != nil {
		return fmt.Errorf("FANFARE_REDIS_URL: %s may have the data of an embedded Redis, and it cannot be noted that another one is used from now on: %w; let this user read and write the folder, or move it away", folder, err)
	}
	return nil
}

// writeNote writes a note that is not there yet. The note is whole, and on the disk, or it is not there: it is written under
// another name first.
func writeNote(note, text string) error {
	if _, err := os.Stat(note); !errors.Is(err, fs.ErrNotExist) {
		return err // nil: the first note counts
	}
	file, err := os.CreateTemp(filepath.Dir(note), filepath.Base(note)+".*.new")
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), note)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return redisdb.SyncFolder(note)
}

// checkOutdated refuses the data of an embedded Redis if another one was used since. Such data would bring back what was done or
// erased meanwhile, and send old events; but it may also be all there is of chats and values. A start in memory uses only a
// snapshot. If there is none, the note stays until putAside.
func (c *config) checkOutdated(inMemory bool) error {
	note, err := c.outdatedNote()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	folder := filepath.Dir(note)
	snapshot, server, err := oldData(folder)
	switch {
	case err != nil:
		return err
	case !snapshot && !server:
		return c.dropNote()
	case !snapshot && inMemory:
		return nil
	}
	return fmt.Errorf("the data in %s is older than the database: %s; set FANFARE_REDIS_URL again to go on with that Redis; or move the folder away to start with an empty one; or delete %s to go on with the data in the folder, which brings back what was done or erased since, and sends old events", folder, text, note)
}

// dropNote removes the note, if there is one, when the data that it is about is gone.
func (c *config) dropNote() error {
	note, err := c.outdatedNote()
	if err != nil {
		return err
	}
	if err := os.Remove(note); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return redisdb.SyncFolder(note)
}
