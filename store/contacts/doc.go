// Package contacts finds the most recently active contacts of a user. SQL (store/record) is the
// record of contacts and uploads. Redis has an index for each user, which background jobs write and
// which is checked against SQL at every read.
//
//	key                   type    lifetime              what
//	ff:{c:<user>}:recent  zset    8 days after a build  contact -> time of the newest upload, an upper bound
//	ff:{c:<user>}:state   hash    7 days after a build  q, r, u, fs, fm, bs, bm
//	ff:{c:<user>}:build   string  10 s or 30 s          token of the process that builds the index
//
// The fields of the state: q rises with every change that no score shows. r rises with every change
// of a relationship. u exists while the index is being built for the first time. fs and fm are the
// score and the contact of the floor ("~", above all contacts, once it is no longer one). bs and bm are the highest entry that was trimmed since the
// present build began.
//
// An index with a state and without u has this property: every contact whose newest visible upload
// (time, contact) ranks above the floor is in it, with a score at least as high, once the jobs of
// the changes are done. The true time may be lower than the score, because an upload was deleted or
// its visibility was narrowed. So a read takes entries in descending order, reads their true times
// from SQL in one query, and stops when the last entry that it needs ranks at or above both the
// next entry and the floor. If it reaches the floor first, it builds the index again from SQL.
//
// Reads that arrive while such a query runs share the next one. It begins after they arrived, so
// that each read sees everything that was committed before. No result of SQL is kept. A read of
// many contacts has its own query.
//
// Without a state there is no index. Writers then write nothing, and the next read builds the
// index, so that an emptied Redis never leads to a wrong answer. One fault cannot be noticed: a
// fail-over of Redis that loses acknowledged writes. An index may then lag until its contacts
// upload again, or until it is built again, at the latest after 7 days.
//
// The version of a relationship is in its row in SQL and rises under the row's lock. It begins with
// Redis' time, so that a relationship whose row was purged continues above all its earlier
// versions. Jobs have only names, and read the present relationship when they run, between two
// reads of r. So the newest version wins, in whatever order jobs run.
package contacts
