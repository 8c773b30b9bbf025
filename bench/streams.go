package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// benchStreamMemory opens 10,000 idle streams, 100 users to a chat.
func benchStreamMemory(ctx context.Context, w *world) (found, error) {
	store, err := w.redis()
	if err != nil {
		return found{}, err
	}
	p, err := w.fanfare(ctx, store, "GOGC=4") // what is held, not what could be thrown away
	if err != nil {
		return found{}, err
	}
	warm, err := openStreams(ctx, p, "warm", 100, 100)
	defer closeAll(warm)
	if err != nil {
		return found{}, err
	}
	before, err := inUse(p)
	if err != nil {
		return found{}, err
	}
	n := w.few(10_000)
	idle, err := openStreams(ctx, p, "idle", n, min(n, 100))
	defer closeAll(idle)
	if err != nil {
		return found{}, err
	}
	after, err := inUse(p)
	return found{rows: []row{
		{"an idle stream's memory, of 10,000 (heap and stacks in use)", (after - before) / float64(n) / 1024, "KiB", 0, "", valueAtMost(20)},
	}}, err
}

// inUse is the heap and the stacks of a process, in bytes.
func inUse(p *process) (sum float64, err error) {
	resp, err := http.Get("http://" + p.addr + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "go_memstats_heap_inuse_bytes" || name == "go_memstats_stack_inuse_bytes" {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+v, found+1
		}
	}
	if found != 2 {
		return 0, errors.New("no figures of memory in /metrics")
	}
	return sum, nil
}

// openStreams opens a stream for each of n users, size of them to a chat.
func openStreams(ctx context.Context, p *process, name string, n, size int) ([]net.Conn, error) {
	err := each(ctx, p.addr, n/size, func(c *caller, i int) error {
		names := make([]string, min(size, membersAtOnce))
		for k := range names {
			names[k] = fmt.Sprintf(`"%s-%d"`, name, i*size+k)
		}
		body := fmt.Sprintf(`{"id":"%s-%d","creator":%s,"members":[%s]}`, name, i, names[0], strings.Join(names, ","))
		return c.call(request(http.MethodPost, "/v1/chats", []byte(body)), http.StatusCreated)
	})
	if err == nil && size > membersAtOnce { // then there is one chat: the others join
		err = each(ctx, p.addr, size-membersAtOnce, func(c *caller, i int) error {
			path := fmt.Sprintf("/v1/chats/%s-0/members/%s-%d", name, name, membersAtOnce+i)
			return c.call(request(http.MethodPut, path, []byte("{}")), http.StatusCreated)
		})
	}
	if err != nil {
		return nil, err
	}
	conns := make([]net.Conn, n)
	return conns, each(ctx, p.addr, n, func(_ *caller, i int) error {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			return err
		}
		conns[i] = c
		if _, err := fmt.Fprintf(c, "GET /v1/users/%s-%d/messages/stream HTTP/1.1\r\nHost: localhost\r\n\r\n", name, i); err != nil {
			return err
		}
		return readPast(c, "\nid: ")
	})
}

// membersAtOnce is how many members a chat is made with: a body has a limit.
const membersAtOnce = 1000

// readPast reads until a text has come.
func readPast(c net.Conn, text string) error {
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	var all []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(all, []byte(text)) {
		n, err := c.Read(buf)
		if err != nil {
			return fmt.Errorf("after %q: %w", all, err)
		}
		all = append(all, buf[:n]...)
	}
	return c.SetReadDeadline(time.Time{})
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		if c != nil {
			_ = c.Close()
		}
	}
}

// benchStreams sends to a chat that 1,000 streams follow.
func benchStreams(ctx context.Context, w *world) (found, error) {
	n := w.few(1000)
	r, err := w.readers(ctx, n)
	if err != nil {
		return found{}, err
	}
	defer closeAll(r.conns)
	m, err := w.turns(ctx, side{"ours", r.round})
	return found{rows: []row{
		{"1,000 streams on one chat, messages to readers", m.of("ours", "rate"), "/s", 0, "", valueAtLeast(150_000)},
	}}, err
}

// readers are streams that follow the chat "team-0".
type readers struct {
	server *process
	conns  []net.Conn
	read   atomic.Int64
	cut    atomic.Pointer[error] // why one of them ended
}

// readers opens n streams on one chat, which are read from then on.
func (w *world) readers(ctx context.Context, n int) (*readers, error) {
	store, err := w.redis()
	if err != nil {
		return nil, err
	}
	r := &readers{}
	if r.server, err = w.fanfare(ctx, store); err != nil {
		return nil, err
	}
	if r.conns, err = openStreams(ctx, r.server, "team", n, n); err != nil {
		return nil, err
	}
	for _, c := range r.conns {
		go r.count(c)
	}
	return r, nil
}

// mark is in each message, and nowhere else in a stream.
const mark = `"text":`

// count counts the messages that a stream brings.
func (r *readers) count(c net.Conn) {
	buf := make([]byte, 16<<10)
	kept := 0
	for {
		n, err := c.Read(buf[kept:])
		if err != nil {
			r.cut.CompareAndSwap(nil, &err)
			return
		}
		n += kept
		r.read.Add(int64(bytes.Count(buf[:n], []byte(mark))))
		kept = min(n, len(mark)-1) // a mark may be cut in two
		copy(buf, buf[n-kept:n])
	}
}

// round sends for a while, never far ahead of the readers, and waits until every
// reader has every message.
func (r *readers) round(ctx context.Context, d time.Duration) (sample, error) {
	const ahead = 50 // messages
	usage, err := measureCPU(r.server)
	if err != nil {
		return nil, err
	}
	var sent atomic.Int64
	before, began := r.read.Load(), time.Now()
	missing := func() int64 { return sent.Load()*int64(len(r.conns)) - (r.read.Load() - before) }
	body := bytes.Replace(message("team-0"), []byte("user-0"), []byte("team-0"), 1)
	l := fixed(r.server.addr, http.StatusCreated, body)
	l.connections = 4
	l.next = func(int) []byte {
		for missing() > int64(ahead*len(r.conns)) && time.Since(began) < d && r.cut.Load() == nil {
			time.Sleep(time.Millisecond)
		}
		sent.Add(1)
		return body
	}
	if _, err := l.run(ctx, d); err != nil {
		return nil, err
	}
	err = eventually(ctx, time.Minute, "all readers", func() (bool, error) {
		if cut := r.cut.Load(); cut != nil {
			return false, fmt.Errorf("a stream ended: %w", *cut)
		}
		return missing() <= 0, nil
	})
	if err != nil {
		return nil, err
	}
	brought, took := float64(sent.Load())*float64(len(r.conns)), time.Since(began)
	used, err := usage()
	return sample{"rate": brought / took.Seconds(), "fanfare": micros(used[0]) / brought}, err
}
