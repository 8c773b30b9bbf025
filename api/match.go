package api

import "slices"

// Values of Match.Version that are not a version.
const (
	// AnyVersion matches whatever is there (If-Match: *).
	AnyVersion int64 = -2
	// NoVersion matches nothing.
	NoVersion int64 = -1
)

// Match is the condition of a change (RFC 9110, 13.1). The zero value is no condition.
type Match struct {
	// Version must be the present version (If-Match), or AnyVersion: there must be one. 0: no
	// condition.
	Version int64
	// Others are further versions that match (If-Match with several tags).
	Others []int64
	// Except are versions that must not be there (If-None-Match with tags). There need not be any.
	Except []int64
	// Absent: there must be nothing yet (If-None-Match: *).
	Absent bool
}

// Holds reports whether the condition allows a change of what is at this version. 0: there is nothing.
func (m Match) Holds(version int64) bool {
	switch {
	case m.Absent:
		return version == 0
	case m.Version == AnyVersion:
		return version != 0
	case m.Version != 0:
		return version == m.Version || slices.Contains(m.Others, version)
	}
	return !slices.Contains(m.Except, version)
}
