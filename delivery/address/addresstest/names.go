// Package addresstest has a server of DNS that tests tell what to answer.
package addresstest

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Names is a server of DNS. It may be used from any goroutine.
type Names struct {
	conn net.PacketConn
	mu   sync.Mutex
	of   map[string][]string // addresses of IPv4, by the name with a dot at its end
	n    int                 // answers
}

// Start starts a server, which ends with the test. No host has an address yet.
func Start(t testing.TB) *Names {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Names{conn: conn, of: map[string][]string{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return s
}

func (s *Names) serve() {
	buf := make([]byte, 2048)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer := s.answer(buf[:n]); answer != nil {
			_, _ = s.conn.WriteTo(answer, from)
		}
	}
}

// answer makes the answer to a query.
func (s *Names) answer(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if q.Type == dnsmessage.TypeA {
		s.n++
		for _, text := range s.of[q.Name.String()] {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(text).As4()},
			})
		}
	}
	out, _ := m.Pack()
	return out
}

// Set lets a host have these addresses of IPv4 from now on.
func (s *Names) Set(host string, addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[host+"."] = addresses
}

// Asked is how often an address was asked for.
func (s *Names) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// Resolver asks the server.
func (s *Names) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("udp", s.conn.LocalAddr().String())
	}}
}
