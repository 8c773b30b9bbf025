package delivery

import "sync"

// Places is how many notifications a process has in hand at once by default, and what
// the queues of events and notifications should let it hold (queue.Options.InFlight).
const Places = 1500

// slots share the places of a process among its apps: one that has so many gets
// another only while more than that are free. So a slow app takes half of them at most,
// two slow ones three quarters: there is always room for others.
type slots struct {
	places int
	mu     sync.Mutex
	taken  int
	apps   map[string]int
}

func newSlots(places int) *slots { return &slots{places: places, apps: map[string]int{}} }

// take takes a place for a notification of each of these apps, or none. Of the most
// that an app may have, they take the share parts/of.
func (s *slots) take(parts, of int, apps ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tryTake(parts, of, apps)
}

// fits tells whether take would take them now.
func (s *slots) fits(parts, of int, apps ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tryTake(parts, of, apps) {
		return false
	}
	for _, app := range apps {
		s.release(app)
	}
	return true
}

// tryTake is take; mu is held, as below.
func (s *slots) tryTake(parts, of int, apps []string) bool {
	for n, app := range apps {
		// What is more than the most is begun when nothing of its app is.
		if has := s.apps[app]; has >= max((s.places-s.taken)*parts/of, n+1) {
			for _, one := range apps[:n] {
				s.release(one)
			}
			return false
		}
		s.apps[app]++
		s.taken++
	}
	return true
}

// free gives a place back.
func (s *slots) free(app string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(app)
}

func (s *slots) release(app string) {
	s.taken--
	if s.apps[app]--; s.apps[app] <= 0 {
		delete(s.apps, app)
	}
}
