package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// hold keeps other processes from using a database that this process cannot share. Only one process
// can use an embedded Redis, so a second process on the same database would have its own queue, and
// notifications would be missing. Processes with a real Redis may share the database with each
// other, but not with a process whose Redis is embedded. The lock belongs to the kernel and ends
// with the process, however the process ends.
func (c *config) hold() (io.Closer, error) {
	file, err := os.OpenFile(c.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: the lock file beside the database: %w", databaseVariable, err)
	}
	mode := syscall.LOCK_SH
	if c.embedded() {
		mode = syscall.LOCK_EX
	}
	err = syscall.Flock(int(file.Fd()), mode|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = file.Close()
		return nil, c.taken()
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", c.lockFile(), err)
	}
	return file, nil
}

// taken is the error for a database that another fanfare has locked.
func (c *config) taken() error {
	if c.embedded() {
		return fmt.Errorf("%s is locked: another fanfare runs on this database, and embedded Redis is for one process alone; stop the other, or give both the same FANFARE_REDIS_URL", c.lockFile())
	}
	return fmt.Errorf("%s is locked: a fanfare with embedded Redis runs on this database; stop it first", c.lockFile())
}

// lockFile lies beside an SQLite database, and in the working directory for any other database. A database that
// has several names by symbolic links has one lock file.
func (c *config) lockFile() string {
	if !strings.HasPrefix(c.DatabaseURL, "sqlite:") {
		return "fanfare.lock"
	}
	return withoutLinks(c.besideDatabase()) + ".lock"
}

// besideDatabase begins the names of what lies beside an SQLite database: it is the database as the setting
// names it. For any other database it is in the working directory.
func (c *config) besideDatabase() string {
	file, ok := strings.CutPrefix(c.DatabaseURL, "sqlite:")
	if !ok {
		return "fanfare"
	}
	file, _, _ = strings.Cut(file, "?")
	return file
}

// withoutLinks follows the symbolic links of a file's name, also to a file that does not exist yet.
func withoutLinks(file string) string {
	for range 40 { // more links than that no system follows
		folder, name := filepath.Split(file) // Dir would take "link/.." for the folder with the link
		folder, err := filepath.EvalSymlinks(cmp.Or(folder, "."))
		if err != nil {
			break // the file cannot be opened either
		}
		file = filepath.Join(folder, name)
		target, err := os.Readlink(file)
		if err != nil {
			break // no link
		}
		if !filepath.IsAbs(target) {
			target = folder + string(filepath.Separator) + target // Join would shorten "link/.." as well
		}
		file = target
	}
	return file
}

// needsHold reports whether others must be locked out: with a real Redis and a database server any
// number of processes work together.
func (c *config) needsHold() bool {
	return c.embedded() || strings.HasPrefix(c.DatabaseURL, "sqlite:")
}
