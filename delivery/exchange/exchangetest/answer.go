package exchangetest

import (
	"net/http"
	"time"
)

// Fault is something that goes wrong with a connection or a stream.
type Fault int

// The faults. With all but Untaken, GoAway and CutOff the request counts as delivered, although the client gets no
// answer.
const (
	NoFault Fault = iota
	// Reset resets the stream.
	Reset
	// Drop closes the connection.
	Drop
	// Untaken closes the connection before the request has any effect.
	Untaken
	// Hang never answers, and the connection stays open.
	Hang
	// GoAway answers, and asks for another connection.
	GoAway
	// CutOff answers without the body, and resets the stream.
	CutOff
)

// Reply is how a request is answered.
type Reply struct {
	Status int
	Delay  time.Duration // how long that takes; 0: Options.Latency
	Fault  Fault         // happens instead of the answer, or with it
	// Write writes the answer's headers and body.
	Write func(http.ResponseWriter)
}

// Entry begins what the ledger has of a request.
func (s *Server[R, P, A]) Entry(r *http.Request) Entry {
	return Entry{Conn: r.RemoteAddr, At: s.o.Now()}
}

// Answer puts a request that passed the checks into the ledger, and answers it by the script. reply turns an
// answer of the script into what happens.
func (s *Server[R, P, A]) Answer(w http.ResponseWriter, r *http.Request, req *R, reply func(*A) Reply) {
	s.mu.Lock()
	script := s.script
	s.mu.Unlock()
	var a A
	if script != nil {
		a = script(req)
	}
	how := reply(&a)
	place := s.note(req, &how)
	s.happen(w, r, &how)
	if r.Context().Err() == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		P(&s.requests[place]).entry().Answered = s.o.Now()
	}
}

// note puts a request into the ledger, and returns its place there.
func (s *Server[R, P, A]) note(req *R, how *Reply) int {
	e := P(req).entry()
	e.Taken = how.Status/100 == 2 && how.Fault != Untaken
	if how.Fault == NoFault || how.Fault == GoAway || how.Fault == CutOff {
		e.Status = how.Status
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, *req)
	return len(s.requests) - 1
}

// happen sends the answer, or lets its fault happen.
func (s *Server[R, P, A]) happen(w http.ResponseWriter, r *http.Request, how *Reply) {
	if how.Delay == 0 {
		how.Delay = s.o.Latency
	}
	if how.Delay > 0 || how.Fault == Hang {
		late := time.After(how.Delay)
		if how.Fault == Hang {
			late = nil
		}
		select {
		case <-late:
		case <-r.Context().Done():
		case <-s.over:
		}
	}
	switch how.Fault {
	case Reset:
		panic(http.ErrAbortHandler) // net/http resets the stream
	case Drop, Untaken:
		s.cut(r.RemoteAddr)
		panic(http.ErrAbortHandler)
	case GoAway:
		w.Header().Set("Connection", "close") // net/http sends GOAWAY
	case CutOff:
		how.Write(bodiless{w})
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	how.Write(w)
}

// bodiless writes an answer without its body.
type bodiless struct{ http.ResponseWriter }

func (bodiless) Write(b []byte) (int, error) { return len(b), nil }

// cut closes a connection.
func (s *Server[R, P, A]) cut(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.conns[name]; c != nil {
		_ = c.Close()
	}
}
