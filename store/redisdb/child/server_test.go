package child

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"fanfare/store/storetest"
)

// folderEnv makes the test binary a process that runs a server in this folder until it is killed.
const folderEnv = "FANFARE_TEST_CHILD_FOLDER"

func TestMain(m *testing.M) {
	folder := os.Getenv(folderEnv)
	if folder == "" {
		goleak.VerifyTestMain(m)
		return
	}
	program, err := Find(context.Background(), folder)
	if err == nil {
		var s *Server
		if s, err = New(Options{Program: program, Folder: folder}); err == nil {
			err = s.Start(context.Background())
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

// world is a server in a folder of its own.
type world struct {
	*Server
	folder string
	log    *storetest.Lines
}

// newServer makes a server in the folder, and stops it at the end of the test.
func newServer(t *testing.T, folder string) *world {
	t.Helper()
	storetest.SkipShort(t, "a redis-server")
	program, err := Find(t.Context(), folder)
	storetest.Must(t, err)
	w := &world{folder: folder, log: &storetest.Lines{}}
	w.Server, err = New(Options{Program: program, Folder: folder, MaxMemory: 64 << 20, Logger: slog.New(slog.NewTextHandler(w.log, nil))})
	storetest.Must(t, err)
	t.Cleanup(w.Stop)
	return w
}

// setup starts a server in a new folder.
func setup(t *testing.T) *world {
	t.Helper()
	w := newServer(t, filepath.Join(t.TempDir(), "data"))
	storetest.Must(t, w.Start(t.Context()))
	return w
}

func (w *world) client(t *testing.T) *redis.Client {
	t.Helper()
	c := connect(w.Socket(), w.Password())
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func mustState(t *testing.T, folder string) (s state) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, stateFile))
	storetest.Must(t, err)
	storetest.Must(t, json.Unmarshal(text, &s))
	return s
}

func mustWriteState(t *testing.T, folder string, s state) {
	t.Helper()
	text, err := json.Marshal(s)
	storetest.Must(t, err)
	storetest.Must(t, os.WriteFile(filepath.Join(folder, stateFile), text, 0o600))
}

// alive reports whether a process runs.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	return !strings.Contains(string(text), ") Z ")
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error %v lacks %q", err, part)
		}
	}
}

// The server listens at its socket alone, asks for the password, keeps what it is told and evicts
// nothing. Its files are its owner's. A stop leaves no process, and the next start has the data.
func TestServer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.client(t)
	storetest.Must(t, c.Set(t.Context(), "k", "v", 0).Err())
	for name, want := range map[string]string{"port": "0", "appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "maxmemory": "67108864"} {
		if got := c.ConfigGet(t.Context(), name).Val()[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	stranger := connect(w.Socket(), "")
	defer stranger.Close()
	wantError(t, stranger.Get(t.Context(), "k").Err(), "NOAUTH")
	for name, want := range map[string]os.FileMode{".": 0o700, stateFile: 0o600, socketName: 0o700, logFile: 0o600} {
		info, err := os.Stat(filepath.Join(w.folder, name))
		storetest.Must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has the mode %v, want %v", name, got, want)
		}
	}
	s := mustState(t, w.folder)
	if group, err := syscall.Getpgid(s.PID); err != nil || group != s.PID {
		t.Errorf("the server is in the group %d (%v), and a Ctrl-C in the terminal would end it", group, err)
	}
	if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.PID)); err == nil && strings.Contains(string(args), s.Password) {
		t.Errorf("the password is on the command line: %q", args)
	}
	w.Stop()
	if alive(s.PID) {
		t.Error("the server lives after the stop")
	}
	next := newServer(t, w.folder)
	storetest.Must(t, next.Start(t.Context()))
	if got := next.client(t).Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("after the next start k is %q", got)
	}
}

// A server that ends is told of and started again, at the same socket and with its data.
func TestServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.client(t)
	for n := range 2 {
		storetest.Must(t, c.Set(t.Context(), "k", n, 0).Err())
		first := mustState(t, w.folder)
		mustBeWritten(t, c)
		storetest.Must(t, syscall.Kill(first.PID, syscall.SIGKILL))
		storetest.Eventually(t, 30*time.Second, "it has its data again", func() bool { return c.Get(t.Context(), "k").Val() == fmt.Sprint(n) })
		if now := mustState(t, w.folder); now.PID == first.PID || now.Started != startOf(t.Context(), now.PID) {
			t.Errorf("%s says %+v", stateFile, now)
		}
	}
	if got := w.Restarts(); got != 2 {
		t.Errorf("started again %d times", got)
	}
	if got := strings.Count(w.log.String(), "the embedded Redis ended"); got != 2 || !strings.Contains(w.log.String(), "signal: killed") {
		t.Errorf("told %d times:\n%s", got, w.log.String())
	}
}

// mustBeWritten waits until the server has written to its file what it has answered: writes wait while the disk is
// busy.
func mustBeWritten(t *testing.T, c *redis.Client) {
	t.Helper()
	storetest.Eventually(t, 30*time.Second, "all is written", func() bool {
		info, err := c.InfoMap(t.Context(), "persistence").Result()
		return err == nil && info["Persistence"]["aof_buffer_length"] == "0"
	})
}

// mustOrphan runs a server under another process, writes to it, and kills that process.
func mustOrphan(t *testing.T) (folder string, orphan state) {
	t.Helper()
	storetest.SkipShort(t, "a redis-server")
	folder = filepath.Join(t.TempDir(), "data")
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), folderEnv+"="+folder)
	var said storetest.Lines
	parent.Stdout = &said
	storetest.Must(t, parent.Start())
	storetest.Eventually(t, 30*time.Second, "the other process is ready", func() bool { return strings.Contains(said.String(), "ready") })
	orphan = mustState(t, folder)
	t.Cleanup(func() {
		if alive(orphan.PID) && startOf(context.WithoutCancel(t.Context()), orphan.PID) == orphan.Started {
			_ = syscall.Kill(orphan.PID, syscall.SIGKILL)
		}
	})
	w := newServer(t, folder)
	wantError(t, w.Start(t.Context()), "another fanfare uses this folder")
	w.Stop()
	c := connect(orphan.Socket, orphan.Password)
	defer c.Close()
	storetest.Must(t, c.Set(t.Context(), "k", "v", 0).Err())
	_ = parent.Process.Kill()
	_ = parent.Wait()
	mustBeWritten(t, c) // it outlives the process
	return folder, orphan
}

// A server whose fanfare was killed is ended at the next start, which has its data. So is one that
// hangs, and one whose pid nobody had noted yet.
func TestOrphanIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, folder string, orphan state){
		"AsItIs": func(*testing.T, string, state) {},
		"Hangs": func(t *testing.T, _ string, orphan state) {
			t.Helper()
			storetest.Must(t, syscall.Kill(orphan.PID, syscall.SIGSTOP))
		},
		"NoPID": func(t *testing.T, folder string, orphan state) {
			t.Helper()
			mustWriteState(t, folder, state{Socket: orphan.Socket, Password: orphan.Password})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, orphan := mustOrphan(t)
			change(t, folder, orphan)
			w := newServer(t, folder)
			w.patience = 2 * time.Second
			storetest.Must(t, w.Start(t.Context()))
			if alive(orphan.PID) {
				t.Error("two servers work on one folder")
			}
			if got := w.client(t).Get(t.Context(), "k").Val(); got != "v" {
				t.Errorf("k is %q", got)
			}
		})
	}
}

// A server that nobody can name is left alone, and nothing else is started on its folder.
func TestUnknownOrphanStopsTheStart(t *testing.T) {
	t.Parallel()
	folder, orphan := mustOrphan(t)
	bystander := mustBystander(t)
	storetest.Must(t, syscall.Kill(orphan.PID, syscall.SIGSTOP))
	mustWriteState(t, folder, state{PID: bystander, Started: orphan.Started, Socket: orphan.Socket, Password: orphan.Password})
	w := newServer(t, folder)
	w.patience = 100 * time.Millisecond
	wantError(t, w.Start(t.Context()), serverLock, "does not say which process it is")
	storetest.Must(t, os.Remove(filepath.Join(folder, stateFile)))
	w.Stop()
	again := newServer(t, folder)
	wantError(t, again.Start(t.Context()), serverLock, stateFile, "end the redis-server")
	if !alive(orphan.PID) || !alive(bystander) {
		t.Error("a process was ended")
	}
}

// mustBystander is the pid of a process that has nothing to do with us.
func mustBystander(t *testing.T) int {
	t.Helper()
	bystander := exec.Command("sleep", "600")
	storetest.Must(t, bystander.Start())
	t.Cleanup(func() {
		_ = bystander.Process.Kill()
		_ = bystander.Wait()
	})
	return bystander.Process.Pid
}

// After a crash of the machine, redis.json may name a pid that another process has now.
func TestStaleStateEndsNobody(t *testing.T) {
	t.Parallel()
	w := setup(t)
	storetest.Must(t, w.client(t).Set(t.Context(), "k", "v", 0).Err())
	s := mustState(t, w.folder)
	w.Stop()
	s.PID = mustBystander(t)
	s.Started = startOf(t.Context(), s.PID)
	mustWriteState(t, w.folder, s)
	next := newServer(t, w.folder)
	storetest.Must(t, next.Start(t.Context()))
	if !alive(s.PID) || next.client(t).Get(t.Context(), "k").Val() != "v" {
		t.Error("the process was ended, or the data is lost")
	}
}

// mustDamage changes the file with the last commands.
func mustDamage(t *testing.T, folder string, change func(text []byte) []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, dataFolder, "*.incr.aof"))
	storetest.Must(t, err)
	path := files[len(files)-1]
	text, err := os.ReadFile(path)
	storetest.Must(t, err)
	storetest.Must(t, os.WriteFile(path, change(text), 0o644))
}

// A command that a crash of the machine cut off is dropped, and the rest is there.
func TestTornFile(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, k := range []string{"a", "b"} {
		storetest.Must(t, w.client(t).Set(t.Context(), k, "v", 0).Err())
	}
	w.Stop()
	mustDamage(t, w.folder, func(text []byte) []byte { return text[:len(text)-3] })
	next := newServer(t, w.folder)
	storetest.Must(t, next.Start(t.Context()))
	if got := next.client(t).Keys(t.Context(), "*").Val(); len(got) != 1 || got[0] != "a" {
		t.Errorf("there are %q", got)
	}
}

// Damage before the end stops the start, and the error says what to do.
func TestDamagedFileStopsTheStart(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, k := range []string{"a", "b"} {
		storetest.Must(t, w.client(t).Set(t.Context(), k, "v", 0).Err())
	}
	w.Stop()
	mustDamage(t, w.folder, func(text []byte) []byte { return bytes.Replace(text, []byte("*3"), []byte("*x"), 1) })
	next := newServer(t, w.folder)
	wantError(t, next.Start(t.Context()), "ended before it was ready", "redis-check-aof --fix "+w.folder, "move the folder away", logFile)
}

// A server that is older than the data is refused. Whether another product can read the data, it
// finds out by itself.
func TestOlderServerIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.Stop()
	for last, refused := range map[string]bool{"redis 99.0.1": true, "redis 7.99.0": true, "redis 7.0.99": false, "redis 6.2.0": false, "valkey 99.0.0": false} {
		storetest.Must(t, os.WriteFile(filepath.Join(w.folder, versionFile), []byte(last+"\n"), 0o600))
		next := newServer(t, w.folder)
		err := next.Start(t.Context())
		next.Stop()
		if refused {
			wantError(t, err, "was last written by "+last, "install "+last+" or newer", "move the folder away")
		} else if err != nil {
			t.Errorf("after %s: %v", last, err)
		}
	}
}

// A program that runs the server as another process is refused, and the server is ended. One that becomes the server is not.
func TestScriptAsServer(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a redis-server")
	for name, tc := range map[string]struct {
		line    string
		refused bool
	}{"Becomes": {"exec %s \"$@\"", false}, "Waits": {"%s \"$@\"\nexit $?", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newServer(t, filepath.Join(t.TempDir(), "data"))
			script := filepath.Join(t.TempDir(), "redis-server")
			storetest.Must(t, os.WriteFile(script, []byte("#!/bin/sh\n"+fmt.Sprintf(tc.line, w.o.Program.Path)+"\n"), 0o755))
			w.o.Program.Path = script
			err := w.Start(t.Context())
			if !tc.refused {
				storetest.Must(t, err)
				return
			}
			wantError(t, err, script+" is a script", "with exec")
			w.Stop()
			next := newServer(t, w.folder)
			storetest.Must(t, next.Start(t.Context())) // the server of the script has ended
		})
	}
}

// The data of a server is put aside while nobody works on the folder. A server that was left behind is ended first, and the
// next one begins without data, whatever its version. The data can be moved back.
func TestDataIsPutAside(t *testing.T) {
	t.Parallel()
	folder, orphan := mustOrphan(t)
	lock, err := Lock(folder)
	storetest.Must(t, err)
	if _, err := Lock(folder); err == nil || !strings.Contains(err.Error(), "another fanfare uses this folder") {
		t.Errorf("the folder is locked twice: %v", err)
	}
	aside, err := PutAside(t.Context(), folder, slog.New(slog.DiscardHandler))
	storetest.Must(t, err)
	if has, err := HasData(folder); alive(orphan.PID) || has || err != nil {
		t.Errorf("the server lives, or its data is still there: %v", err)
	}
	storetest.Must(t, lock.Close())
	next := newServer(t, folder)
	storetest.Must(t, next.Start(t.Context()))
	if got := next.client(t).Keys(t.Context(), "*").Val(); len(got) != 0 {
		t.Errorf("there are %q", got)
	}
	next.Stop()
	storetest.Must(t, os.RemoveAll(filepath.Join(folder, dataFolder)))
	storetest.Must(t, os.Rename(aside, filepath.Join(folder, dataFolder)))
	back := newServer(t, folder)
	storetest.Must(t, back.Start(t.Context()))
	if got := back.client(t).Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("k is %q", got)
	}
}

// A folder whose path is too long for a socket has its socket elsewhere, which goes with the server.
func TestLongFolder(t *testing.T) {
	t.Parallel()
	w := newServer(t, filepath.Join(t.TempDir(), strings.Repeat("long-", 20)))
	storetest.Must(t, w.Start(t.Context()))
	storetest.Must(t, w.client(t).Ping(t.Context()).Err())
	place := filepath.Dir(w.Socket())
	w.Stop()
	if _, err := os.Stat(place); !os.IsNotExist(err) || strings.HasPrefix(place, w.folder) {
		t.Errorf("%s: %v", place, err)
	}
}

// A start that is not to go on leaves no server behind.
func TestStartIsCancelled(t *testing.T) {
	t.Parallel()
	w := newServer(t, filepath.Join(t.TempDir(), "data"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Start(ctx); err == nil {
		t.Fatal("it started")
	}
	w.Stop()
	next := newServer(t, w.folder)
	storetest.Must(t, next.Start(t.Context()))
}

// The programs on PATH are asked for their version, and refused with the reason.
func TestFind(t *testing.T) {
	for name, tc := range map[string]struct {
		redis, valkey, last string // what they print; "": they are not there
		want                string
		refused             []string
	}{
		"None":     {refused: []string{"no redis-server on PATH", "no valkey-server on PATH"}},
		"Redis":    {redis: "Redis server v=7.0.15 sha=0", want: "redis 7.0.15"},
		"Valkey":   {valkey: "Valkey server v=8.1.0 sha=0", want: "valkey 8.1.0"},
		"Both":     {redis: "Redis server v=8.0.0 sha=0", valkey: "Valkey server v=8.1.0 sha=0", want: "redis 8.0.0"},
		"LastOne":  {redis: "Redis server v=8.0.0 sha=0", valkey: "Valkey server v=8.1.0 sha=0", last: "valkey 8.0.9", want: "valkey 8.1.0"},
		"Alias":    {redis: "Valkey server v=8.1.0 sha=0", want: "valkey 8.1.0"},
		"TooOld":   {redis: "Redis server v=6.2.16 sha=0", refused: []string{"version 6.2.16, and 7 or newer is needed", "no valkey-server"}},
		"OneIsOld": {redis: "Redis server v=6.2.16 sha=0", valkey: "Valkey server v=7.2.5 sha=0", want: "valkey 7.2.5"},
		"Garbage":  {redis: "hello", refused: []string{"does not print a version"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for program, line := range map[string]string{"redis-server": tc.redis, "valkey-server": tc.valkey} {
				if line != "" {
					storetest.Must(t, os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\necho '"+line+"'\n"), 0o755))
				}
			}
			if tc.last != "" {
				storetest.Must(t, os.WriteFile(filepath.Join(dir, versionFile), []byte(tc.last+"\n"), 0o600))
			}
			t.Setenv("PATH", dir)
			got, err := Find(t.Context(), dir)
			if tc.want != "" && (err != nil || got.String() != tc.want) {
				t.Errorf("found %s, %v; want %s", got, err, tc.want)
			}
			wantError(t, err, tc.refused...)
		})
	}
}
