// Package lock is an attempt-counting lock: at most one holder at a time by
// Redis' clock, any number of contenders, a lease in milliseconds, attempts
// that rise by one, a fence that only rises, and tombstones for what is done
// or exhausted. Acquiring is one atomic step.
//
// One record decides (lua/record.lua), and only scripts change it, by Redis' clock.
//
// No lock can promise two things. A holder that is paused between asking Alive and its write
// may write after its lease; to be safe, the receiver of the write must compare fences. And a
// fail-over of Redis that loses an acknowledged acquire lets a second holder in, whose fence
// is higher.
//
// Keys:
//
//	ff:{l:<name>:<id>}       string   the record, "D:<fence>" when done,
//	                                  "X:<request>" when exhausted;
//	                                  lease + retention while held, else retention
//	ff:{l:<name>:<id>}:free  channel  hand-overs; all waiters of a Locker hear
//	                                  of them on one connection
package lock
