package redisdb

import (
	"context"
	"sync"
	"time"
)

// theMaster is the name of the only master. The masters of a Cluster have their addresses as names.
const theMaster = ""

// absences are what is known of the masters, by their names. Before the first reading nothing is.
type absences struct {
	mu sync.Mutex
	of map[string]absence
}

// absence is what is known of one master.
type absence struct {
	missed bool      // it did not answer the last reading
	back   time.Time // when it answered again, with its monotonic part, so that a clock that is set back moves nothing
}

// note notes which masters a reading found, and whether they answered. It found none if the map of a Cluster cannot be read.
// A master that no reading before had found may have taken the place of another that was away.
func (a *absences) note(answered map[string]bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, first := a.of, a.of == nil
	a.of = map[string]absence{}
	for name, m := range before {
		if _, found := answered[name]; !found && len(answered) == 0 {
			m.missed = true
			a.of[name] = m
		}
	}
	for name, is := range answered {
		m, known := before[name]
		if is && (m.missed || !known && !first) {
			m.back = now
		}
		m.missed = !is
		a.of[name] = m
	}
}

// BackSince is when the master of a key answered again after it had not, as far as Run knows, which asks every second. It is
// the zero time if Run has not missed it. away: it does not answer, or loads its data, or it is not known yet.
func (db *DB) BackSince(ctx context.Context, key string) (at time.Time, away bool) {
	name := theMaster
	if db.cluster != nil {
		c, err := masterOf(ctx, db.client, key)
		if err != nil {
			return time.Time{}, true
		}
		name = db.nameOf(c)
	}
	db.absences.mu.Lock()
	defer db.absences.mu.Unlock()
	m, known := db.absences.of[name]
	return m.back, m.missed || !known && db.absences.of != nil
}

// nameOf is the name of a master.
func (db *DB) nameOf(c Client) string {
	if db.cluster == nil {
		return theMaster
	}
	return addrOf(c)
}
