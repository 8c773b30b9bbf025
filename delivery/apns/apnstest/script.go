package apnstest

import (
	"sync"
	"sync/atomic"
)

// script holds the scripted answers. Most runs have none, so that a request
// costs one atomic load.
type script struct {
	any    atomic.Bool
	mu     sync.Mutex
	ask    func(*Request) (Answer, bool)
	tokens map[string][]Answer
	topics map[string][]Answer // "" is every topic
}

// newScript makes an empty script: every good request gets a 200.
func newScript() *script {
	return &script{tokens: make(map[string][]Answer), topics: make(map[string][]Answer)}
}

// set replaces the answers for one key. Without answers it removes the script.
func (s *script) set(in map[string][]Answer, key string, answers []Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(answers) == 0 {
		delete(in, key)
	} else {
		in[key] = answers
	}
	s.any.Store(s.ask != nil || len(s.tokens)+len(s.topics) > 0)
}

// setFunc replaces the function that is called first; nil removes it.
func (s *script) setFunc(f func(*Request) (Answer, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ask = f
	s.any.Store(s.ask != nil || len(s.tokens)+len(s.topics) > 0)
}

// next is the answer for a request. The last answer of a sequence repeats.
func (s *script) next(r *Request) Answer {
	if !s.any.Load() {
		return Answer{}
	}
	s.mu.Lock()
	ask := s.ask
	s.mu.Unlock()
	if ask != nil {
		if a, ok := ask(r); ok {
			return a
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, from := range []struct {
		in  map[string][]Answer
		key string
	}{{s.tokens, r.Token}, {s.topics, r.Topic}, {s.topics, ""}} {
		if list := from.in[from.key]; len(list) > 0 {
			if len(list) > 1 {
				from.in[from.key] = list[1:]
			}
			return list[0]
		}
	}
	return Answer{}
}
