package usertokens

import "time"

// RememberAtMost bounds a generation of what a store remembers.
func RememberAtMost(s *Store, most int) { s.remembered.most = most }

// Remembered counts the tokens that a store remembers.
func Remembered(s *Store) int { return len(s.remembered.newer) + len(s.remembered.older) }

// Revocations counts those that a store holds in memory.
func Revocations(s *Store) (n int) {
	s.revoked.Range(func(any, any) bool { n++; return true })
	return n
}

// SetClock replaces Redis' clock.
func SetClock(s *Store, now func() time.Time) { s.now = now }

// SetPage sets how many revocations are read at once.
func SetPage(s *Store, page int) { s.page = page }

// Forget is what Run does every hour.
func Forget(s *Store, before time.Time) { s.forget(before) }
