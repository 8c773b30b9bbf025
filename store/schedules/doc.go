// Package schedules enqueues jobs at the times of a cron (docs/spec/jobs.md, J10). A schedule is on record in SQL, in the
// table schedules; the package has no keys in Redis.
//
// Each process looks, without a lock, and when a schedule is due it does two things:
//
//  1. It enqueues the job under an Idempotency-Key of the schedule and the due time. Whoever does the same again, within 24
//     hours, enqueues nothing.
//  2. It advances the row from this due time to the next one, by a compare-and-set.
//
// A process that dies in between leaves the row, so another one does both again. After an absence the due time that counts
// is the latest one, and the others are skipped.
//
// All times are by the database's clock, so processes whose own clocks differ agree on what is due.
package schedules
