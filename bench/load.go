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
	"sync"
	"time"
)

// connections is how many keep-alive connections load the servers.
const connections = 64

// caller is one keep-alive HTTP/1.1 connection that costs next to nothing, so
// that the load generator leaves the processors to what is measured.
type caller struct {
	conn   net.Conn
	reader *bufio.Reader
	status int    // of the last answer
	body   []byte // of it
}

func dial(addr string) (*caller, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &caller{conn: conn, reader: bufio.NewReaderSize(conn, 4<<10)}, nil
}

// request renders a request once.
func request(method, path string, body []byte) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
}

// call sends a rendered request, reads the whole answer and fails unless it has
// the wanted status.
func (c *caller) call(request []byte, want int) error {
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	line, err := c.reader.ReadSlice('\n')
	if err != nil || len(line) < 12 {
		return errors.Join(err, errors.New("no status line"))
	}
	if c.status, err = strconv.Atoi(string(line[9:12])); err != nil {
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
	if c.status != want {
		return fmt.Errorf("status %d instead of %d: %s", c.status, want, c.body[:min(length, 500)])
	}
	return nil
}

// head reads the header and gives the length of the body.
func (c *caller) head() (int, error) {
	length := 0
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			return 0, errors.New("an answer without a length")
		}
	}
}

// load is what many connections ask for a while.
type load struct {
	addrs       []string // the connections take turns
	connections int
	want        int // status of every answer
	// also is a status that may come instead; such answers are counted apart.
	also int
	// next renders a connection's next request; nil ends the connection's part.
	next func(connection int) []byte
	// rate is how many requests a second all connections send together at even
	// times, whatever the answers take; 0: each sends when it has its answer.
	rate float64
}

// run gives answers per second ("rate"), their number ("count"), how long they
// took in ms ("p50", "p99"), and how many of all had the status also ("also").
func (l *load) run(ctx context.Context, d time.Duration) (sample, error) {
	took := make([][]time.Duration, l.connections)
	fails, others := make([]error, l.connections), make([]int, l.connections)
	var all sync.WaitGroup
	began := time.Now()
	for i := range l.connections {
		all.Go(func() { took[i], others[i], fails[i] = l.stream(ctx, i, began, d) })
	}
	all.Wait()
	elapsed, other := time.Since(began), 0
	for i, err := range fails {
		if err != nil {
			return nil, err
		}
		other += others[i]
	}
	durations := slices.Concat(took...)
	if len(durations) == 0 {
		return nil, errors.New("not one answer")
	}
	p50, p99 := quantiles(durations)
	n := float64(len(durations))
	return sample{"rate": n / elapsed.Seconds(), "count": n, "p50": p50, "p99": p99, "also": float64(other) / (n + float64(other))}, ctx.Err()
}

// stream is one connection's part: how long its answers took, and how many had
// the other status.
func (l *load) stream(ctx context.Context, i int, began time.Time, d time.Duration) (took []time.Duration, others int, err error) {
	c, err := dial(l.addrs[i%len(l.addrs)])
	if err != nil {
		return nil, 0, err
	}
	defer c.conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	defer stop()
	for n := 0; ; n++ {
		sent := l.due(i, n, began)
		if sent.Sub(began) >= d {
			return took, others, nil
		}
		r := l.next(i)
		if r == nil {
			return took, others, nil
		}
		if err := c.call(r, l.want); err != nil && (l.also == 0 || c.status != l.also) {
			return nil, 0, err
		}
		if c.status == l.want {
			took = append(took, time.Since(sent))
		} else {
			others++
		}
	}
}

// due waits for the time of a connection's n-th request and gives the moment
// from which its answer counts: when it is sent, but when it should have been
// sent if the answer before came too late for that.
func (l *load) due(i, n int, began time.Time) time.Time {
	now := time.Now()
	if l.rate == 0 {
		return now
	}
	at := began.Add(time.Duration((float64(n*l.connections+i) / l.rate) * float64(time.Second)))
	if wait := at.Sub(now); wait > 0 {
		time.Sleep(wait)
		return time.Now() // a timer's lateness is not the server's
	}
	return at
}

// fixed is a load of the same request from each connection.
func fixed(addr string, want int, request []byte) *load {
	return &load{addrs: []string{addr}, connections: connections, want: want, next: func(int) []byte { return request }}
}

// quantiles of some durations, in milliseconds.
func quantiles(all []time.Duration) (p50, p99 float64) {
	slices.Sort(all)
	ms := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))]) / 1e6 }
	return ms(.5), ms(.99)
}

// each does something n times from several goroutines, with a connection each.
func each(ctx context.Context, addr string, n int, do func(c *caller, i int) error) error {
	const goroutines = 16
	fails := make([]error, goroutines)
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			c, err := dial(addr)
			if err != nil {
				fails[g] = err
				return
			}
			defer c.conn.Close()
			for i := g; i < n && fails[g] == nil; i += goroutines {
				fails[g] = errors.Join(do(c, i), ctx.Err())
			}
		})
	}
	all.Wait()
	return errors.Join(fails...)
}
