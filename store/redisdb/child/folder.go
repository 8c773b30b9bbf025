package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// The names in the folder.
const (
	lockFile    = "lock"
	serverLock  = "redis.lock"
	stateFile   = "redis.json"
	versionFile = "redis.version"
	logFile     = "redis.log"
	socketName  = "redis.sock"
	dataFolder  = "appendonlydir"
)

const (
	// orphanPatience is how long a server that a killed fanfare left behind may take to end by itself,
	// and then how long it may take after a SIGKILL.
	orphanPatience = 10 * time.Second
	// askOrphan is how long such a server may take to answer.
	askOrphan = 2 * time.Second
	// lockAgain is the pause between two tries to lock a file.
	lockAgain = 10 * time.Millisecond
)

// state is the content of redis.json.
type state struct {
	PID int `json:"pid"`
	// Started tells processes of the same pid apart.
	Started  string `json:"started"`
	Socket   string `json:"socket"`
	Password string `json:"password"`
}

// prepareFolder makes the folder if it is missing, and closes it to other users.
func prepareFolder(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.Chmod(folder, 0o700)
}

// tryLock locks a file until it is closed by every process that has it. nil: another has locked it.
func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}

// waitLock is tryLock with patience.
func waitLock(ctx context.Context, path string, patience time.Duration) (*os.File, error) {
	for began := time.Now(); ; {
		file, err := tryLock(path)
		if file != nil || err != nil || time.Since(began) > patience {
			return file, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockAgain):
		}
	}
}

// Lock locks the folder for this process until it is closed. The folder is made if it is missing. The error says so if
// another fanfare uses it. Start of a Server does the same.
func Lock(folder string) (io.Closer, error) {
	if err := prepareFolder(folder); err != nil {
		return nil, err
	}
	path := filepath.Join(folder, lockFile)
	lock, err := tryLock(path)
	if lock == nil && err == nil {
		err = fmt.Errorf("%s is locked: another fanfare uses this folder; stop it first", path)
	}
	if err != nil {
		return nil, err
	}
	return lock, nil
}

// PutAside renames the data that a server has written in the folder, which the caller has locked, and returns where it is
// now. So no later server takes it for the newest. A server that a killed fanfare left there is ended first.
func PutAside(ctx context.Context, folder string, log *slog.Logger) (aside string, err error) {
	s := &Server{o: Options{Folder: folder, Logger: log}, patience: orphanPatience}
	if err := s.takeOver(ctx); err != nil {
		return "", err
	}
	defer func() { _ = s.serverLock.Close() }()
	_ = os.Remove(filepath.Join(folder, stateFile))
	data := filepath.Join(folder, dataFolder)
	// The version goes first, into the data: whoever moves that back brings it along, and it never stays without data.
	if err := os.Rename(filepath.Join(folder, versionFile), filepath.Join(data, versionFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("put the version of the server aside: %w", err)
	}
	aside = data + "." + time.Now().UTC().Format("20060102T150405.000Z")
	if err := os.Rename(data, aside); err != nil {
		return "", fmt.Errorf("put the data of the server aside: %w", err)
	}
	return aside, nil
}

// takeOver locks the folder for a server. If a server of a killed fanfare still works there, that
// server is ended first. It loses nothing by that: it writes its append-only file to the end.
func (s *Server) takeOver(ctx context.Context) error {
	path := filepath.Join(s.o.Folder, serverLock)
	lock, err := tryLock(path)
	if lock == nil && err == nil {
		lock, err = s.endOrphan(ctx, path)
	}
	if err != nil {
		return err
	}
	if lock == nil {
		return fmt.Errorf("%s is locked by a server that does not end, and %s does not say which process it is; end the redis-server or valkey-server of this folder, then start again", path, stateFile)
	}
	s.serverLock = lock
	return nil
}

// endOrphan asks the server that has the lock to end. If it does not, it is killed.
func (s *Server) endOrphan(ctx context.Context, path string) (*os.File, error) {
	var orphan state
	text, err := os.ReadFile(filepath.Join(s.o.Folder, stateFile))
	if err == nil {
		err = json.Unmarshal(text, &orphan)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is locked by a server, and %s cannot be read: %w; end the redis-server or valkey-server of this folder, then start again", path, stateFile, err)
	}
	s.o.Logger.InfoContext(ctx, "a server of a fanfare that was killed is ended, and its data taken over", "folder", s.o.Folder, "pid", orphan.PID)
	if folder := filepath.Dir(orphan.Socket); folder != s.o.Folder {
		defer func() { _ = os.Remove(folder) }() // a temporary one, see placeSocket; it is empty when the server has ended
	}
	client := connect(orphan.Socket, orphan.Password)
	defer func() { _ = client.Close() }()
	ask, cancel := context.WithTimeout(ctx, askOrphan)
	defer cancel()
	_ = client.ShutdownNoSave(ask).Err() // it closes the connection without an answer
	if lock, err := waitLock(ctx, path, s.patience); lock != nil || err != nil {
		return lock, err
	}
	if orphan.Started == "" || orphan.Started != startOf(ctx, orphan.PID) {
		return nil, nil
	}
	_ = syscall.Kill(orphan.PID, syscall.SIGKILL)
	return waitLock(ctx, path, s.patience)
}

// connect makes a client of the server at a socket. It dials with the first command.
//
//go:noinline
func connect(socket, password string) *redis.Client {
	return redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Password: password, Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: 1})
}

// writeState notes the server, so that the next fanfare finds it if this one is killed. The pid is 0
// before the server has started.
func (s *Server) writeState(ctx context.Context, pid int) error {
	text, err := json.Marshal(state{PID: pid, Started: startOf(ctx, pid), Socket: s.absolute, Password: s.password})
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(s.o.Folder, stateFile), text)
}

// writeFile replaces a file at once, so that nobody reads half of it.
func writeFile(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// longestSocket is the longest path of a socket that all systems take.
const longestSocket = 100

// placeSocket chooses where the server listens: in its folder, or in a temporary folder if the path
// would be too long for a socket. dialled is the shorter one of the absolute path and the path from
// the working directory.
func placeSocket(folder string) (absolute, dialled, temporary string, err error) {
	if absolute, err = filepath.Abs(filepath.Join(folder, socketName)); err != nil {
		return "", "", "", err
	}
	dialled = absolute
	if here, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(here, absolute); err == nil && len(relative) < len(absolute) {
			dialled = relative
		}
	}
	if len(absolute) <= longestSocket {
		return absolute, dialled, "", nil
	}
	if temporary, err = os.MkdirTemp("", "fanfare-"); err != nil {
		return "", "", "", err
	}
	absolute = filepath.Join(temporary, socketName)
	return absolute, absolute, temporary, nil
}
