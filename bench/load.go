package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// connections is the number of keep-alive connections over which the servers are loaded.
	connections = 64
	// pace is the rate of events or jobs, per second, at which latencies are measured.
	pace = 200
	// patience is how long a load waits without progress before it fails.
	patience = time.Minute
)

// load is a number of callers that do the same thing for a while, over HTTP or not.
type load struct {
	callers int
	// rate is how many calls per second all callers make together, at even intervals, however long
	// the answers take. 0: each caller makes the next call when it has the answer.
	rate float64
	// call prepares a caller and returns the function that it calls again and again.
	call func(ctx context.Context, caller int) calls
	// also is the HTTP status with which a call may be refused. Any other status is a failure.
	also int

	// If done is set, the work of a call is done only after its answer. done counts the work that
	// is done, of which each call causes each. At most ahead of it is outstanding at a time, and
	// the load ends when all is done.
	done        func() int64
	each, ahead int64
}

// calls is the function of a caller. It gets the number of the call among all calls and the time at
// which the call is sent, and returns how long the call took. A negative time means that the call
// was refused.
type calls func(n int, sent time.Time) time.Duration

// run returns the number of things done ("count") and their rate per second ("rate"), the times of
// calls in ms ("p50", "p99"), and the share of calls that were refused ("also").
func (l *load) run(ctx context.Context, d time.Duration) sample {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	took, refused := make([][]time.Duration, l.callers), atomic.Int64{}
	callers := make([]calls, l.callers)
	parallel(l.callers, func(i int) { callers[i] = l.call(ctx, i) })
	waits, all := l.counting()
	began := time.Now()
	parallel(l.callers, func(i int) {
		for n := i; ; n += l.callers {
			sent := l.due(n, began)
			for l.done != nil && waits() >= l.ahead && time.Since(began) < d && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
				sent = time.Now()
			}
			if sent.Sub(began) >= d {
				return
			}
			must(ctx.Err())
			all.Add(l.each)
			if t := callers[i](n, sent); t >= 0 {
				took[i] = append(took[i], t)
			} else {
				refused.Add(1)
			}
		}
	})
	durations := slices.Concat(took...)
	n := float64(len(durations))
	if n == 0 {
		failf("not one answer")
	}
	if l.done != nil {
		awaitAll(ctx, all.Load(), func() int64 { return all.Load() - waits() })
		n = float64(all.Load())
	}
	elapsed := time.Since(began).Seconds()
	p50, p99 := quantiles(durations)
	also := float64(refused.Load())
	return sample{"rate": n / elapsed, "count": n, "p50": p50, "p99": p99, "also": also / (n + also)}
}

// counting returns functions for the number of things that are outstanding and for the number of
// all things.
func (l *load) counting() (waits func() int64, all *atomic.Int64) {
	all = &atomic.Int64{}
	if l.done == nil {
		return all.Load, all
	}
	before := l.done()
	return func() int64 { return all.Load() - (l.done() - before) }, all
}

// awaitAll waits until a number of things are done. It fails if there is no progress.
func awaitAll(ctx context.Context, all int64, done func() int64) {
	last, since := done(), time.Now()
	eventually(ctx, time.Hour, "all that was sent", func() bool {
		now := done()
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > patience {
			failf("%d of %d are missing, and none came for %v", all-now, all, patience)
		}
		return now >= all
	})
}

// due waits for the time of the n-th call and returns the time from which its answer is measured.
// That is the time at which the call is sent or, if it is late because the previous answer was
// late, the time at which it should have been sent.
func (l *load) due(n int, began time.Time) time.Time {
	now := time.Now()
	if l.rate == 0 {
		return now
	}
	at := began.Add(time.Duration((float64(n) / l.rate) * float64(time.Second)))
	if wait := at.Sub(now); wait > 0 {
		time.Sleep(wait)
		return time.Now() // the delay of a timer must not count as the server's
	}
	return at
}

// quantiles returns quantiles of durations, in milliseconds.
func quantiles(all []time.Duration) (p50, p99 float64) {
	slices.Sort(all)
	ms := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))]) / 1e6 }
	return ms(.5), ms(.99)
}

// requests is a load over HTTP. Connections to the servers send the rendered requests in turn, and
// expect the same status in every answer.
func requests(want, callers int, rendered [][]byte, addrs ...string) *load {
	l := &load{callers: callers}
	l.call = func(ctx context.Context, i int) calls {
		c := dial(ctx, addrs[i%len(addrs)])
		return func(n int, sent time.Time) time.Duration {
			err := c.send(rendered[n%len(rendered)], want)
			if err != nil && l.also != 0 && c.status == l.also {
				return -1
			}
			must(err)
			return time.Since(sent)
		}
	}
	return l
}

// caller is a keep-alive HTTP/1.1 connection that needs very little processor time, because the
// load generator shares the processors with the programs that it measures.
type caller struct {
	conn   net.Conn
	reader *bufio.Reader
	status int    // of the last answer
	body   []byte // of the last answer
}

// dial opens a connection that lives as long as ctx.
func dial(ctx context.Context, addr string) *caller {
	conn := got(net.DialTimeout("tcp", addr, 5*time.Second))
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &caller{conn: conn, reader: bufio.NewReaderSize(conn, 4<<10)}
}

// request renders a request once.
func request(method, path string, body string) []byte {
	const head = "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	return fmt.Appendf(nil, head, method, path, len(body), body)
}

// call sends a request and fails unless the answer has the given status.
func (c *caller) call(method, path, body string, want int) {
	must(c.send(request(method, path, body), want))
}

// send sends a rendered request, reads the whole answer and fails unless it has the expected
// status.
func (c *caller) send(request []byte, want int) error {
	c.status = 0
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	line, err := c.reader.ReadSlice('\n')
	if err != nil || len(line) < 12 {
		return errors.Join(err, errors.New("no status line"))
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return err
	}
	length, err := c.head()
	if err != nil {
		return err
	}
	c.body = slices.Grow(c.body[:0], length)[:length]
	if _, err := io.ReadFull(c.reader, c.body); err != nil {
		return err
	}
	if c.status = status; status != want {
		return fmt.Errorf("status %d instead of %d: %s", status, want, c.body[:min(length, 500)])
	}
	return nil
}

// head reads the header and returns the length of the body.
func (c *caller) head() (length int, err error) {
	for {
		line, err := c.reader.ReadSlice('\n')
		if line = bytes.TrimSpace(line); err != nil || len(line) == 0 {
			return length, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
			return 0, errors.New("an answer without a length")
		}
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
}

// each calls a function n times from several goroutines, each with its own connection.
func each(ctx context.Context, addr string, n int, do func(c *caller, i int)) {
	const goroutines = 16
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	parallel(min(goroutines, n), func(g int) {
		c := dial(ctx, addr)
		for i := g; i < n; i += goroutines {
			do(c, i)
			must(ctx.Err())
		}
	})
}
