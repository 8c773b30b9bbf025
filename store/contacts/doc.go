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
// What holds of an index with a state and without u: every contact whose newest
// visible upload (time, contact) ranks above the floor is in it, with a score at
// least as high, once the jobs of the changes are done. Truth may be lower than
// a score: uploads are deleted, visibility narrows. So a read takes entries in
// falling order, asks SQL for their truth in one query, and stops when the last
// it needs ranks at or above both the next entry and the floor. If it comes to
// the floor first, it builds the index again from SQL.
//
// Readers who come while such a query runs share the next one. It begins after
// they came, so each sees what was committed before he asked; no answer of SQL is
// kept. Whoever asks for many contacts at once has a query of his own.
//
// Without a state there is no index: writers leave it so, and the next read
// builds it. That is why an emptied Redis can never give a wrong answer. What
// nothing can see from here is a fail-over of Redis that loses acknowledged
// writes: an index may then lag till its contacts upload again, or till it is
// built anew, at the latest after 7 days.
//
// A relationship's version is its row's in SQL, raised under the row's lock, and begins
// with Redis' time, so that one whose row is forgotten goes on above all it had; jobs
// carry names and read what is true when they run, between two readings of r. So
// the newest version wins in whatever order jobs come.
package contacts
