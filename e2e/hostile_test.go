package e2e

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fanfare/store/storetest"
)

const (
	// hostileMemory is the bound of the memory of a process after attacks by hostile clients.
	hostileMemory = 400 << 20
	// hostileSlower is how many times longer a healthy client's calls may take during an attack, at
	// the 99th percentile. Times below quietLeast count as quietLeast.
	hostileSlower = 3
	quietLeast    = 5 * time.Millisecond
)

// Hostile clients of each kind, one after the other, neither slow down a healthy client nor fill
// the memory of the process: heads that never end, 10,000 idle connections, 3,000 streams that are
// dropped as soon as they are open, deep and huge JSON. The speed without an attack is measured at
// the same time, on a process that is not attacked, because other work of the machine slows down
// both.
func TestHostileClients(t *testing.T) {
	t.Parallel()
	attacked, quiet := mustServeAlone(t), mustServeAlone(t)
	healthyCalls(attacked, quiet) // fill the caches
	for _, hostility := range []struct {
		name  string
		begin func(context.Context, *program, *sync.WaitGroup)
	}{
		{"HeadsWithoutEnd", headsWithoutEnd}, {"IdleConnections", idleConnections}, {"DroppedStreams", droppedStreams}, {"DeepAndHugeJSON", deepAndHugeJSON},
	} {
		ctx, stop := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		hostility.begin(ctx, attacked, &clients)
		// One slow interval may be chance. If all intervals are slow, the attack is the cause.
		storetest.Eventually(t, time.Minute, hostility.name+": a healthy client is as quick as without them", func() bool {
			p99 := healthyCalls(attacked, quiet)
			t.Logf("%s: p99 %v, %v without", hostility.name, p99[0], p99[1])
			return p99[0] <= hostileSlower*max(p99[1], quietLeast)
		})
		stop()
		clients.Wait()
	}
	if peak := attacked.peakMemory(); peak > hostileMemory {
		t.Errorf("%d MiB of memory", peak>>20)
	} else {
		t.Logf("%d MiB of memory", peak>>20)
	}
}

// mustServeAlone runs the program as it is shipped, with its own Redis and client.
func mustServeAlone(t *testing.T) *program {
	t.Helper()
	p := mustServeShipped(t, "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.SQLite(t), "FANFARE_LOG_LEVEL=error")
	p.http = &http.Client{Timeout: client.Timeout, Transport: &http.Transport{}}
	t.Cleanup(p.http.CloseIdleConnections)
	return p
}

// healthyCalls posts 200 events to each process, in turns, and returns the 99th percentile of the
// times for each.
func healthyCalls(processes ...*program) []time.Duration {
	took := make([][]time.Duration, len(processes))
	for range 200 {
		for i, p := range processes {
			began := time.Now()
			p.must(202, nil, "POST", "/v1/events", greeting("alice"))
			took[i] = append(took[i], time.Since(began))
		}
	}
	p99 := make([]time.Duration, len(processes))
	for i := range took {
		slices.Sort(took[i])
		p99[i] = took[i][len(took[i])*99/100]
	}
	return p99
}

// dial opens a connection and sends text on it; nil if it was refused.
func (p *program) dial(ctx context.Context, text string) net.Conn {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(p.base, "http://"))
	if err != nil {
		return nil
	}
	if _, err = io.WriteString(conn, text); err != nil {
		_ = conn.Close()
		return nil
	}
	return conn
}

// crowd runs n clients until ctx ends. They pause between calls, because they share the processors.
// It returns when each client has made its first call.
func crowd(ctx context.Context, clients *sync.WaitGroup, n int, call func()) {
	var first sync.WaitGroup
	first.Add(n)
	for range n {
		clients.Go(func() {
			call()
			first.Done()
			for rest(ctx, 100*time.Millisecond) {
				call()
			}
		})
	}
	first.Wait()
}

// rest waits, and returns false if ctx has ended.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// headsWithoutEnd runs 500 clients that each send one line of a head every second.
func headsWithoutEnd(ctx context.Context, p *program, clients *sync.WaitGroup) {
	for range 500 {
		clients.Go(func() {
			for ctx.Err() == nil {
				conn := p.dial(ctx, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
				for rest(ctx, time.Second) && conn != nil {
					if _, err := io.WriteString(conn, "X: x\r\n"); err != nil {
						break
					}
				}
				if conn != nil {
					_ = conn.Close()
				}
			}
		})
	}
}

// idleConnections opens 10,000 connections with one call each and then nothing.
func idleConnections(ctx context.Context, p *program, clients *sync.WaitGroup) {
	n := 10_000
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		n = min(n, int(files.Cur/2))
	}
	var mu sync.Mutex
	var open []net.Conn
	var dialers sync.WaitGroup
	for range 50 {
		dialers.Go(func() {
			for range n / 50 {
				conn := p.dial(ctx, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
				if conn == nil {
					continue
				}
				if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
					_ = resp.Body.Close()
				}
				mu.Lock()
				open = append(open, conn)
				mu.Unlock()
			}
		})
	}
	dialers.Wait()
	if len(open) < n*9/10 {
		p.t.Errorf("only %d of %d connections", len(open), n)
	}
	clients.Go(func() {
		<-ctx.Done()
		for _, conn := range open {
			_ = conn.Close()
		}
	})
}

// droppedStreams opens 3,000 streams and drops each after its head, and then continues with a few.
func droppedStreams(ctx context.Context, p *program, clients *sync.WaitGroup) {
	drop := func() {
		if conn := p.dial(ctx, "GET /v1/users/bob/messages/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"); conn != nil {
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			_ = conn.Close()
			if err == nil {
				_ = res.Body.Close()
			}
		}
	}
	const at = 30
	var first sync.WaitGroup
	for range at {
		first.Go(func() {
			for range 3000 / at {
				drop()
			}
		})
	}
	first.Wait()
	crowd(ctx, clients, at, drop)
}

// deepAndHugeJSON runs 5 clients that post JSON with a hundred thousand levels, a number of a
// million digits, and a string larger than the limit of bodies.
func deepAndHugeJSON(ctx context.Context, p *program, clients *sync.WaitGroup) {
	bodies := []string{strings.Repeat(`{"data":[`, 100_000), `{"type":` + strings.Repeat("9", 1<<20) + `}`, `{"type":"` + strings.Repeat("x", 8<<20) + `"}`}
	crowd(ctx, clients, 5, func() {
		for _, body := range bodies {
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, p.base+"/v1/events", strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(req)
			if err != nil {
				continue // the server closes the connection of a client that sends too much
			}
			_ = resp.Body.Close()
			if resp.StatusCode < 400 || resp.StatusCode == 500 {
				p.t.Errorf("%.20s... was answered %d", body, resp.StatusCode)
			}
		}
	})
}
