package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// streamMemory opens 10,000 idle streams, with 100 users in each chat.
func streamMemory(w *world) sample {
	s := w.stage(plan{env: []string{"GOGC=4"}}) // so that the heap has little garbage
	s.openStreams("warm", 100, 100)
	before := s.inUse()
	n := w.few(10_000)
	s.openStreams("idle", n, min(n, 100))
	return sample{"each": (s.inUse() - before) / float64(n) / 1024}
}

// inUse is the size of the server's heap and stacks, in bytes.
func (s *stage) inUse() (sum float64) {
	text := string(get(s.server.addr, "/metrics"))
	for _, name := range []string{"go_memstats_heap_inuse_bytes", "go_memstats_stack_inuse_bytes"} {
		_, rest, _ := strings.Cut(text, "\n"+name+" ")
		var v float64
		got(fmt.Sscan(rest, &v))
		sum += v
	}
	return sum
}

// membersAtOnce is how many members a chat is made with, because a body has a limit.
const membersAtOnce = 1000

// openStreams opens a stream for each of n users, with size users in each chat. The streams stay
// open until the subject ends.
func (s *stage) openStreams(name string, n, size int) []net.Conn {
	form := name + "-%d"
	s.each(n/size, func(c *caller, i int) {
		c.putChat(fmt.Sprintf(form, i), names(form, i*size, min(size, membersAtOnce)))
	})
	s.each(max(size-membersAtOnce, 0), func(c *caller, i int) { // then there is only one chat, and the others join it
		path := fmt.Sprintf("/v1/chats/%s-0/members/%s-%d", name, name, membersAtOnce+i)
		c.call(http.MethodPut, path, "{}", http.StatusCreated)
	})
	conns := make([]net.Conn, n)
	s.each(n, func(_ *caller, i int) {
		conns[i] = got(net.Dial("tcp", s.server.addr))
		got(fmt.Fprintf(conns[i], "GET /v1/users/%s-%d/messages/stream HTTP/1.1\r\nHost: localhost\r\n\r\n", name, i))
		readPast(conns[i], "\nid: ")
	})
	s.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return conns
}

// readPast reads until a text has come.
func readPast(c net.Conn, text string) {
	must(c.SetReadDeadline(time.Now().Add(time.Minute)))
	var all []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(all, []byte(text)) {
		n, err := c.Read(buf)
		if all = append(all, buf[:n]...); err != nil {
			failf("after %q: %w", all, err)
		}
	}
	must(c.SetReadDeadline(time.Time{}))
}

// readers sends to a chat that n streams follow, with few messages outstanding, and waits until
// every reader has every message.
func readers(w *world, n int) sample {
	s := w.stage(plan{})
	var read atomic.Int64
	var cut atomic.Pointer[error] // why a stream ended
	for _, c := range s.openStreams("team", n, n) {
		go countMessages(c, &read, &cut)
	}
	ours := s.flood("ours", s.server, http.StatusCreated, message("team-0", "team-0"))
	ours.callers, ours.each, ours.ahead = 4, int64(n), int64(50*n)
	ours.done = func() int64 {
		if err := cut.Load(); err != nil {
			failf("a stream ended: %w", *err)
		}
		return read.Load()
	}
	return w.turns(ours)
}

// followed measures a chat that n streams follow.
func followed(w *world, n int) []float64 {
	return readers(w, n).line("ours rate", "ours fanfare")
}

// countMessages counts the messages of a stream until it ends.
func countMessages(c net.Conn, read *atomic.Int64, cut *atomic.Pointer[error]) {
	const mark = `"text":` // occurs once in each message, and nowhere else in a stream
	buf := make([]byte, 16<<10)
	kept := 0
	for {
		n, err := c.Read(buf[kept:])
		if err != nil {
			cut.CompareAndSwap(nil, &err)
			return
		}
		n += kept
		read.Add(int64(bytes.Count(buf[:n], []byte(mark))))
		kept = min(n, len(mark)-1) // the text may be split between two reads
		copy(buf, buf[n-kept:n])
	}
}
