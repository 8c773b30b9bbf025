// Package contacts answers "who of my contacts was active last". SQL
// (store/record) is the record of contacts and uploads; Redis holds an index
// per user, written by background jobs and checked against SQL at every read.
//
//	key                   type    lifetime              what
//	ff:{c:<user>}:recent  zset    8 days after a build  contact -> time of the newest upload, an upper bound
//	ff:{c:<user>}:state   hash    7 days after a build  q, r, u, fs, fm, bs, bm
//	ff:{c:<user>}:build   string  10 s or 30 s          token of the process that builds the index
//
// The state's fields: q moves with every change that a score does not show, r
// with every change of a relationship; u stands while the index is built for
// the first time; fs and fm are the floor, score and contact; bs and bm the
// highest entry trimmed since the present build began.
//
// An index with a state and without u keeps this promise: every contact whose newest
// visible upload (time, contact) ranks above the floor is in it, with a score at least as
// high, once the jobs of the changes are done. The true time may be lower than the score:
// uploads are deleted, visibility narrows. So a read takes entries in falling order, asks
// SQL for their true times in one query, and stops when the last entry that it needs ranks
// at or above both the next entry and the floor. If it comes to the floor first, it builds
// the index again from SQL.
//
// Reads that arrive while such a query runs share the next one. It begins after they
// arrived, so each sees everything that was committed before; no result of SQL is kept.
// A read of many contacts has a query of its own.
//
// Without a state there is no index: writers leave it so, and the next read builds it.
// That is why an emptied Redis can never give a wrong answer. One fault cannot be seen
// from here: a fail-over of Redis that loses acknowledged writes. An index may then lag
// until its contacts upload again, or until it is built anew, at the latest after 7 days.
//
// A relationship's version is in its row in SQL and rises under the row's lock. It begins
// with Redis' time, so that a relationship whose row was purged goes on above all versions
// that it had. Jobs carry names and read the present relationship when they run, between
// two readings of r. So the newest version wins in whatever order jobs run.
package contacts
