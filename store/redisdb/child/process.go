package child

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// stopPatience is how long a server may take to end after SIGTERM.
	stopPatience = 10 * time.Second
	// mostLog is the size, in bytes, from which on a start puts the log aside.
	mostLog = 1 << 20
	// mostSaid is how much of the end of the log an error quotes, in bytes.
	mostSaid = 600
)

// process is one run of the server.
type process struct {
	cmd     *exec.Cmd
	exited  chan struct{}
	log     string
	offset  int64 // where this run's lines begin in the log
	started time.Time
}

// settings are the server's configuration. It goes through the standard input, so that the password
// is neither on a command line nor in another file.
func (s *Server) settings() string {
	socket := socketName // from the folder, where the server works
	if s.temporary != "" {
		socket = s.absolute
	}
	return strings.Join([]string{
		"port 0", "unixsocket " + strconv.Quote(socket), "unixsocketperm 700", "requirepass " + s.password, "databases 1",
		"appendonly yes", "appendfsync everysec", "appenddirname " + dataFolder, "aof-load-truncated yes", `save ""`,
		"maxmemory " + strconv.FormatInt(s.o.MaxMemory, 10), "maxmemory-policy noeviction",
		"daemonize no", "always-show-logo no", "",
	}, "\n")
}

// launch starts the server in a process group of its own, so that a Ctrl-C in the terminal does not
// reach it: it has to outlive everything that uses it.
func (s *Server) launch(ctx context.Context) (*process, error) {
	path := filepath.Join(s.o.Folder, logFile)
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p := &process{exited: make(chan struct{}), log: path, started: time.Now()}
	if info, err := log.Stat(); err == nil {
		p.offset = info.Size()
	}
	if err := s.writeState(ctx, 0); err != nil {
		return nil, err
	}
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), s.o.Program.Path, "-")
	p.cmd.Dir, p.cmd.Env = s.o.Folder, []string{} // it needs no secrets of ours
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = strings.NewReader(s.settings()), log, log
	p.cmd.ExtraFiles = []*os.File{s.serverLock}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait()
	}()
	if err := s.writeState(ctx, p.cmd.Process.Pid); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// stop ends the server, and waits for its end. It reports whether it had to be killed.
func (p *process) stop() (killed bool) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		return false
	case <-time.After(stopPatience):
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
	return true
}

// end says how the process ended: its status, and the last lines of its log.
func (p *process) end() (status, said string) {
	text, err := os.ReadFile(p.log)
	if err == nil && int64(len(text)) >= p.offset {
		text = text[p.offset:]
	}
	said = strings.TrimSpace(string(text[max(0, len(text)-mostSaid):]))
	return p.cmd.ProcessState.String(), said
}

// endedEarly is the error for a server that ended before it was ready.
func (s *Server) endedEarly(p *process) error {
	status, said := p.end()
	advice := ""
	if strings.Contains(said, "redis-check-aof") || strings.Contains(said, "valkey-check-aof") {
		advice = fmt.Sprintf("; its data is damaged: copy the folder, repair the copy's files with %s-check-aof --fix %s, and put them back, or move the folder away to start with an empty Redis",
			s.o.Program.Product, filepath.Join(s.o.Folder, dataFolder, "appendonly.aof.manifest"))
	}
	if strings.Contains(status, "killed") {
		advice = "; the kernel may have killed it for lack of memory: give the machine or container more"
	}
	return fmt.Errorf("%s ended before it was ready (%s)%s; it said, in %s: %s", s.o.Program, status, advice, p.log, said)
}

// putLogAside keeps the log from growing for ever.
func putLogAside(folder string) {
	path := filepath.Join(folder, logFile)
	if info, err := os.Stat(path); err == nil && info.Size() > mostLog {
		_ = os.Rename(path, path+".1")
	}
}

// startOf is the time when a process started, in a form of the system's; "" if there is no such
// process.
func startOf(ctx context.Context, pid int) string {
	if pid <= 0 {
		return ""
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil { // not Linux, or no such process
		out, _ := exec.CommandContext(ctx, "ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
		return strings.TrimSpace(string(out))
	}
	// The name in parentheses may have blanks; the start is the 20th field after it.
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), " ")
	if fields := strings.Fields(rest); len(fields) > 19 {
		return fields[19]
	}
	return ""
}
