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
	"sync/atomic"
	"time"
)

// caller is one keep-alive HTTP/1.1 connection that costs next to nothing, so
// that the load generator leaves the processors to what is measured.
type caller struct {
	conn   net.Conn
	reader *bufio.Reader
}

func dial(addr string) (*caller, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &caller{conn, bufio.NewReaderSize(conn, 4<<10)}, nil
}

// request renders a request once.
func request(method, addr, path string, body []byte) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, addr, len(body), body)
}

// call sends a rendered request and reads the answer away; it gives the status.
func (c *caller) call(request []byte) (int, error) {
	if _, err := c.conn.Write(request); err != nil {
		return 0, err
	}
	line, err := c.reader.ReadSlice('\n')
	if err != nil || len(line) < 12 {
		return 0, errors.Join(err, errors.New("no status line"))
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, err
	}
	length, err := c.head()
	if err != nil {
		return 0, err
	}
	_, err = io.CopyN(io.Discard, c.reader, int64(length))
	return status, err
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
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
}

// flood calls from many connections for a while; next renders each connection's
// next request. It gives answers per second and fails unless all have the
// wanted status.
func flood(ctx context.Context, addr string, connections, want int, d time.Duration, next func() []byte) (float64, error) {
	var (
		wg    sync.WaitGroup
		count atomic.Int64
		mu    sync.Mutex
		fails []error
	)
	began := time.Now()
	for range connections {
		wg.Go(func() {
			if err := stream(ctx, addr, want, began.Add(d), &count, next); err != nil {
				mu.Lock()
				fails = append(fails, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(fails) > 0 {
		return 0, fails[0]
	}
	return float64(count.Load()) / time.Since(began).Seconds(), ctx.Err()
}

// stream is one connection of flood.
func stream(ctx context.Context, addr string, want int, end time.Time, count *atomic.Int64, next func() []byte) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	for time.Now().Before(end) && ctx.Err() == nil {
		status, err := c.call(next())
		if err != nil {
			return err
		}
		if status != want {
			return fmt.Errorf("status %d instead of %d", status, want)
		}
		count.Add(1)
	}
	return nil
}

// quantiles of some durations, in milliseconds.
func quantiles(all []time.Duration) (p50, p99 float64) {
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	ms := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))]) / 1e6 }
	return ms(.5), ms(.99)
}
