package delivery

import (
	"sync"
	"time"

	"fanfare/api"
)

const (
	// unclearFor is for how long a user's refusal counts towards severalUsers.
	unclearFor = 10 * time.Minute
	// answersWithin is how long ago a host must have taken a notification to count as one that answers.
	answersWithin = time.Minute
	// maxUnclearHosts and maxUnclearUsers bound what is kept: of how many hosts, and of how many users of one.
	maxUnclearHosts, maxUnclearUsers = 1000, 200
)

// unclear judges the refusals of single endpoints whose cause the push service does not tell (W14). Users choose
// the paths of endpoints, so one user's refusals must neither wake an operator nor fill the dead letters; and
// fanfare may be wrong, so they must not cost the devices of all users. Each process knows its own answers.
type unclear struct {
	mu    sync.Mutex
	hosts map[string]*hostAnswers
}

// hostAnswers are the newest answers of one host of push services.
type hostAnswers struct {
	took    time.Time            // when it last took a notification
	refused map[string]time.Time // the users whose newest answer was such a refusal
}

func newUnclear() *unclear { return &unclear{hosts: map[string]*hostAnswers{}} }

// hostOf is the host that a message goes to, "" unless the device is a browser.
func hostOf(m *message) string { return api.OriginOf(m.Target) }

// of returns the answers of a host. mu is held.
func (u *unclear) of(host string) *hostAnswers {
	h := u.hosts[host]
	if h == nil {
		makePlace(u.hosts, maxUnclearHosts)
		h = &hostAnswers{refused: map[string]time.Time{}}
		u.hosts[host] = h
	}
	return h
}

// makePlace removes any one entry of a full map.
func makePlace[V any](m map[string]V, most int) {
	for name := range m {
		if len(m) < most {
			return
		}
		delete(m, name)
	}
}

// delivered notes that a host took a notification for a user.
func (u *unclear) delivered(host, user string, now time.Time) {
	if host == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.of(host)
	h.took = now
	delete(h.refused, user)
}

// refused notes that a host refused a notification for a user. blamed tells that the device is at fault: the
// host takes others' notifications. several tells that several users were refused lately, so that an operator
// should look at it.
func (u *unclear) refused(host, user string, now time.Time) (blamed, several bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.of(host)
	makePlace(h.refused, maxUnclearUsers)
	h.refused[user] = now
	lately, since := 0, 0
	for name, at := range h.refused {
		switch {
		case now.Sub(at) > unclearFor:
			delete(h.refused, name)
			continue
		case at.After(h.took):
			since++
		}
		lately++
	}
	return now.Sub(h.took) < answersWithin && since < severalUsers, lately >= severalUsers
}
