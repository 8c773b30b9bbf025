package child

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// pingAgain is the pause between two questions whether the server is ready.
	pingAgain = 10 * time.Millisecond
	// The pause before a server that ended is started again grows from firstPause to mostPause.
	firstPause, mostPause = 100 * time.Millisecond, 10 * time.Second
	// sayAfter is how long a start takes before the log says what it waits for.
	sayAfter = 5 * time.Second
	// steady is the age from which on a server has started well.
	steady = time.Minute
)

// Options say which server works where.
type Options struct {
	// Program is the server's program, as Find found it.
	Program Program
	// Folder is where the server keeps its data. It is made if it is missing. Only one Server can use
	// it at a time.
	Folder string
	// MaxMemory is the server's maxmemory in bytes; 0: no limit.
	MaxMemory int64
	// Logger hears when the server ends and starts again; nil discards it.
	Logger *slog.Logger
}

// Server is a server in a child process.
type Server struct {
	o        Options
	password string
	// absolute is where the server listens, and dialled the same path as this process uses it.
	// temporary is the folder of the socket, if that is a temporary one.
	absolute, dialled, temporary string

	lock       io.Closer
	serverLock *os.File
	patience   time.Duration // with a server that a killed fanfare left behind
	cancel     context.CancelFunc
	stopped    chan struct{}
	restarts   atomic.Int64
}

// New makes a server. It starts nothing.
func New(o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if o.Folder, err = filepath.Abs(o.Folder); err != nil {
		return nil, err
	}
	s := &Server{o: o, password: rand.Text(), patience: orphanPatience}
	if s.absolute, s.dialled, s.temporary, err = placeSocket(o.Folder); err != nil {
		return nil, fmt.Errorf("a place for the socket of %s: %w", o.Program, err)
	}
	return s, nil
}

// Socket is the path of the socket where the server listens, as this process uses it.
func (s *Server) Socket() string { return s.dialled }

// Password is the password that the server asks for.
func (s *Server) Password() string { return s.password }

// Restarts is how often the server ended by itself, and was started again.
func (s *Server) Restarts() int64 { return s.restarts.Load() }

// Program is the server's program.
func (s *Server) Program() Program { return s.o.Program }

// Start locks the folder, ends a server that a killed fanfare left there, starts the server and
// waits until it has read its data. From then on a server that ends is started again, until Stop.
// The error says what to do if the folder is in use, the data was written by a newer server or is
// damaged. Stop must be called in any case.
func (s *Server) Start(ctx context.Context) error {
	if err := s.lockFolder(ctx); err != nil {
		return err
	}
	putLogAside(s.o.Folder)
	p, err := s.launch(ctx)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.o.Program, err)
	}
	if err := s.awaitReady(ctx, p); err != nil {
		p.stop()
		return err
	}
	if err := writeFile(filepath.Join(s.o.Folder, versionFile), []byte(s.o.Program.String()+"\n")); err != nil {
		p.stop()
		return err
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.stopped = make(chan struct{})
	go func() {
		defer close(s.stopped)
		s.keep(ctx, p)
	}()
	return nil
}

// lockFolder takes both locks of the folder, and checks that the server may work there.
func (s *Server) lockFolder(ctx context.Context) error {
	lock, err := Lock(s.o.Folder)
	if err != nil {
		return err
	}
	s.lock = lock
	if err := checkRelease(s.o.Folder, s.o.Program); err != nil {
		return err
	}
	return s.takeOver(ctx)
}

// awaitReady waits until the server answers, or ends.
func (s *Server) awaitReady(ctx context.Context, p *process) error {
	client := connect(s.dialled, s.password)
	defer func() { _ = client.Close() }()
	for told := false; ; {
		err := client.Ping(ctx).Err()
		if err == nil {
			return s.checkProcess(ctx, client, p)
		}
		if reply := redis.Error(nil); errors.As(err, &reply) && !redis.HasErrorPrefix(err, "LOADING") {
			return fmt.Errorf("%s answers %w", s.o.Program, err)
		}
		if !told && time.Since(p.started) > sayAfter {
			told = true
			s.o.Logger.InfoContext(ctx, "the embedded Redis is not ready yet; a lot of data takes some time", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.exited:
			return s.endedEarly(p)
		case <-time.After(pingAgain):
		}
	}
}

// checkProcess refuses a program that runs the server as another process, such as a script: nobody would notice the end of
// the server, or end it with certainty. The server is ended.
func (s *Server) checkProcess(ctx context.Context, client redis.Cmdable, p *process) error {
	info, err := client.InfoMap(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("ask %s for its process: %w", s.o.Program, err)
	}
	pid, own := info["Server"]["process_id"], strconv.Itoa(p.cmd.Process.Pid)
	if pid == own {
		return nil
	}
	_ = client.ShutdownNoSave(ctx).Err() // it closes the connection without an answer
	return fmt.Errorf("%s is a script that runs the server as another process (%s, and not %s), so fanfare cannot look after it; begin the script's last line with exec, or name another redis-server first on PATH", s.o.Program.Path, pid, own)
}

// keep starts the server again whenever it ends, and ends it with ctx.
func (s *Server) keep(ctx context.Context, p *process) {
	pause := firstPause
	for p != nil {
		select {
		case <-ctx.Done():
			if p.stop() {
				s.o.Logger.WarnContext(ctx, "the embedded Redis did not end in time and was killed", "timeout", stopPatience)
			}
			return
		case <-p.exited:
		}
		if time.Since(p.started) > steady {
			pause = firstPause
		}
		status, said := p.end()
		s.o.Logger.ErrorContext(ctx, "the embedded Redis ended, and is started again", "reason", status, "said", said, "after", pause)
		p, pause = s.again(ctx, pause)
	}
}

// again starts the server, after a pause that grows with each failure. nil: ctx ended.
func (s *Server) again(ctx context.Context, pause time.Duration) (*process, time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return nil, pause
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
		p, err := s.launch(ctx)
		if err == nil {
			s.restarts.Add(1)
			return p, pause
		}
		s.o.Logger.ErrorContext(ctx, "the embedded Redis cannot be started", "error", err, "after", pause)
	}
}

// Stop ends the server, waits for its end and unlocks the folder. Nothing must use the server any
// more.
func (s *Server) Stop() {
	if s.cancel != nil {
		s.cancel()
		<-s.stopped
	}
	if s.serverLock != nil {
		_ = os.Remove(filepath.Join(s.o.Folder, stateFile))
		_ = s.serverLock.Close()
	}
	if s.lock != nil {
		_ = s.lock.Close()
	}
	if s.temporary != "" {
		_ = os.RemoveAll(s.temporary)
	}
}
