package main

import (
	"bufio"
	"bytes"
	"cmp"
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
	// outstanding is the largest number of things that are sent and not done yet, for sides whose work
	// goes on after the answer. So a round ends soon after its last call, and all sides work on queues
	// of the same length.
	outstanding = 20_000
)

// side is one of the sides that are measured in turns: a number of callers that do the same thing for
// a while, over HTTP or not.
type side struct {
	name string
	// stage is the stage whose processor time is measured: that of its Redis and of the servers.
	stage *stage
	// servers are the processes to which the callers connect in turn. Without any, the callers have no
	// connection.
	servers []*process
	callers int // default 64
	// rate is how many calls per second all callers make together, at even intervals, however long
	// the answers take. 0: each caller makes the next call when it has the answer.
	rate float64
	// requests are the rendered requests that the callers send in turn, and status is the status of
	// every answer. A call may be refused with the status refused.
	requests        [][]byte
	status, refused int
	// call, if it is set, makes the n-th of all calls instead. A call lasts from the time at which it is
	// due to its return, unless it sets other times in the caller.
	call func(c *caller, n int)
	// each is how many things a call causes (default 1). If done is set, they are done after the
	// answer: done counts them, at most ahead of them are outstanding at a time (default outstanding),
	// and the load ends when all are done.
	each, ahead int64
	done        func() int64
	// run, if it is set, measures in another way.
	run func(d time.Duration) sample
}

// sample has figures by name: of one round of one side or, as "side figure", the medians of several.
type sample map[string]float64

// round makes one measurement. In addition to the figures of the side it has the processor time in
// µs for each counted thing, of Redis ("redis") and of the servers ("fanfare").
func (s *side) round(ctx context.Context, d time.Duration) (found sample) {
	measure := s.run
	if measure == nil {
		measure = func(d time.Duration) sample { return s.load(ctx, d) }
	}
	if s.stage == nil {
		return measure(d)
	}
	redis, servers := s.stage.redisCPU(), cpu(s.servers)
	found = measure(d)
	found["redis"] = (s.stage.redisCPU() - redis) / found["count"]
	found["fanfare"] = (cpu(s.servers) - servers) / found["count"]
	return found
}

// load returns the number of things done ("count") and their rate per second ("rate"), the times of
// calls in ms ("p50", "p99"), and the percentage of calls that were refused ("refused").
func (s *side) load(ctx context.Context, d time.Duration) sample {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	do, each := s.call, cmp.Or(s.each, 1)
	if do == nil {
		do = s.request
	}
	callers := made(cmp.Or(s.callers, connections), func(i int) *caller {
		if len(s.servers) == 0 {
			return &caller{}
		}
		return dial(ctx, s.servers[i%len(s.servers)].addr)
	})
	var sent, refused atomic.Int64
	waiting := func() int64 { return 0 }
	if s.done != nil {
		before := s.done()
		waiting = func() int64 { return sent.Load() - (s.done() - before) }
	}
	took, began := make([][]time.Duration, len(callers)), time.Now()
	parallel(len(callers), func(i int) {
		for n := i; ; n += len(callers) {
			at := s.due(n, began)
			for waiting() >= cmp.Or(s.ahead, outstanding) && time.Since(began) < d && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
				at = time.Now()
			}
			if at.Sub(began) >= d {
				return
			}
			must(context.Cause(ctx))
			sent.Add(each)
			c := callers[i]
			c.began, c.ended, c.refused = at, time.Time{}, false
			do(c, n)
			if c.refused {
				refused.Add(1)
				continue
			}
			took[i] = append(took[i], cmp.Or(c.ended, time.Now()).Sub(c.began))
		}
	})
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	if len(all) == 0 {
		failf("not one answer")
	}
	eventually(ctx, "all that was sent", func() bool { return waiting() <= 0 })
	if more := -waiting(); more > 0 {
		failf("%d things more were done than were sent", more)
	}
	count, calls := float64(len(all))*float64(each), float64(len(all))+float64(refused.Load())
	return sample{"rate": count / time.Since(began).Seconds(), "count": count, "p50": quantile(all, .5), "p99": quantile(all, .99),
		"refused": 100 * float64(refused.Load()) / calls}
}

// due waits for the time of the n-th call and returns the time from which its answer is measured.
// That is the time at which the call is sent or, if it is late because the previous answer was
// late, the time at which it should have been sent.
func (s *side) due(n int, began time.Time) time.Time {
	now := time.Now()
	if s.rate == 0 {
		return now
	}
	at := began.Add(time.Duration((float64(n) / s.rate) * float64(time.Second)))
	if wait := at.Sub(now); wait > 0 {
		time.Sleep(wait)
		return time.Now() // the delay of a timer must not count as the server's
	}
	return at
}

// quantile is a quantile of sorted durations, in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	return float64(sorted[int(q*float64(len(sorted)-1))]) / 1e6
}

// request sends one of the rendered requests.
func (s *side) request(c *caller, n int) {
	err := c.send(s.requests[n%len(s.requests)], s.status)
	c.refused = err != nil && s.refused != 0 && c.status == s.refused
	if !c.refused {
		must(err)
	}
}

// turns lets the sides measure one after the other, round by round, so that other work of the
// machine affects all of them, and returns the medians. Before the first round there is a warm-up of a
// quarter of the time. With -profile, only that side is measured.
func (w *world) turns(sides ...*side) sample {
	all := map[string][]float64{}
	if w.profile != "" {
		sides = slices.DeleteFunc(sides, func(s *side) bool { return s.name != w.profile })
		if w.against == "" {
			sides[0].showProfile(w)
			return nil
		}
	}
	for round := range w.rounds + 1 {
		d := w.seconds
		if round == 0 {
			d /= 4
		}
		for _, s := range sides {
			var found sample
			if err := attempt(func() { found = s.round(w.ctx, d) }); err != nil {
				failf("%s: %w", s.name, err)
			}
			for figure, v := range found {
				if round > 0 {
					all[s.name+" "+figure] = append(all[s.name+" "+figure], v)
				}
			}
		}
	}
	found := sample{}
	for name, values := range all {
		found[name] = median(values)
	}
	return found
}

// line are some of the figures.
func (f sample) line(names ...string) []float64 {
	return made(len(names), func(i int) float64 { return f[names[i]] })
}

// median is the median of the rounds. If two are in the middle, it is their mean.
func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// caller is a keep-alive HTTP/1.1 connection that needs very little processor time, because the
// load generator shares the processors with the programs that it measures.
type caller struct {
	conn         net.Conn
	reader       *bufio.Reader
	status       int       // of the last answer
	body         []byte    // of the last answer
	began, ended time.Time // of the last call, if it is known better than by the load
	refused      bool      // the last call
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
func (c *caller) call(method, path, body string, status int) {
	must(c.send(request(method, path, body), status))
}

// send sends a rendered request, reads the whole answer and returns an error unless it has the
// expected status.
func (c *caller) send(request []byte, status int) error {
	c.status = 0
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	length := 0
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if len(name) == 0 {
			break
		}
		switch string(bytes.ToLower(name)) {
		case "http/1.1":
			c.status, err = strconv.Atoi(string(value[:min(3, len(value))]))
		case "content-length:":
			length, err = strconv.Atoi(string(value))
		case "transfer-encoding:":
			err = errors.New("an answer without a length")
		}
		if err != nil {
			return err
		}
	}
	c.body = slices.Grow(c.body[:0], length)[:length]
	if _, err := io.ReadFull(c.reader, c.body); err != nil {
		return err
	}
	if c.status != status {
		return fmt.Errorf("status %d instead of %d: %s", c.status, status, c.body[:min(length, 500)])
	}
	return nil
}
