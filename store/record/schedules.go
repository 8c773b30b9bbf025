package record

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// scheduleRow is a row of schedules. The definition is the request without its payload, which lists leave out.
type scheduleRow struct {
	ID         string `db:"id"`
	Definition string `db:"definition"`
	Payload    string `db:"payload"`
	NextAt     int64  `db:"next_at"`
	LastAt     *int64 `db:"last_at"`
	CreatedAt  int64  `db:"created_at"`
	UpdatedAt  int64  `db:"updated_at"`
	Now        int64  `db:"now_ms"`
}

// retrySchedules is when a caller with one schedule too many may try again.
const retrySchedules = 10 * time.Second

const scheduleColumns = "id, definition, next_at, last_at, created_at, updated_at"

// NextTime is the first due time after the database's present time, and after the last due time whose job was enqueued
// (zero: none was), which is later only if the database's clock was set back.
type NextTime func(now, last time.Time) (time.Time, error)

// PutSchedule creates or replaces a schedule; api.CodeTooManyNames for one too many. The same again changes nothing. The
// next due time is computed for a new schedule, and if the queue, the cron or the time zone is another. Otherwise it stays,
// even if it is past and its job is not enqueued yet.
func (db *DB) PutSchedule(ctx context.Context, id string, r *api.ScheduleRequest, next NextTime) (s *api.Schedule, created bool, err error) {
	without := *r
	without.Payload = nil
	definition, err := json.Marshal(without)
	if err != nil {
		return nil, false, fmt.Errorf("put schedule %s: %w", id, err)
	}
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		wanted := scheduleRow{ID: id, Definition: string(definition), Payload: string(r.Payload)}
		s, created, err = db.putSchedule(ctx, tx, wanted, next)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("put schedule %s: %w", id, err)
	}
	return s, created, nil
}

func (db *DB) putSchedule(ctx context.Context, tx *sqlx.Tx, wanted scheduleRow, next NextTime) (*api.Schedule, bool, error) {
	if err := db.raise(ctx, tx, versionSchedules); err != nil {
		return nil, false, err
	}
	var row scheduleRow
	err := tx.GetContext(ctx, &row, "SELECT "+scheduleColumns+", payload FROM schedules WHERE id = ?", wanted.ID)
	created := errors.Is(err, sql.ErrNoRows)
	if err != nil && !created {
		return nil, false, err
	}
	if !created && row.Definition == wanted.Definition && row.Payload == wanted.Payload {
		s, err := row.decode()
		return s, false, cmp.Or(err, errUnchanged)
	}
	now, err := db.now(ctx, tx)
	if err != nil {
		return nil, false, err
	}
	if created {
		row = scheduleRow{ID: wanted.ID, CreatedAt: now} // sqlx has set last_at
	}
	row.UpdatedAt = now
	moved := created || !wanted.sameTimes(row)
	if moved {
		at, err := next(time.UnixMilli(now), row.last())
		if err != nil {
			return nil, false, err
		}
		row.NextAt = at.UnixMilli()
	}
	row.Definition, row.Payload = wanted.Definition, wanted.Payload
	if err := writeSchedule(ctx, tx, row, created, moved); err != nil {
		return nil, false, err
	}
	s, err := row.decode()
	return s, created, err
}

// sameTimes reports whether two definitions enqueue jobs at the same times into the same queue.
func (r scheduleRow) sameTimes(other scheduleRow) bool {
	a, err := r.decode()
	b, also := other.decode()
	return err == nil && also == nil && a.Queue == b.Queue && a.Cron == b.Cron && a.TimeZone == b.TimeZone
}

// writeSchedule writes a row. If the next due time stays, it is not written, because the row may be advanced meanwhile.
func writeSchedule(ctx context.Context, tx *sqlx.Tx, row scheduleRow, created, moved bool) error {
	query := "UPDATE schedules SET definition = :definition, payload = :payload, updated_at = :updated_at"
	switch {
	case created:
		var have int
		if err := tx.GetContext(ctx, &have, "SELECT COUNT(*) FROM schedules"); err != nil {
			return err
		}
		if have >= api.MaxSchedules {
			e := api.Errorf(api.CodeTooManyNames, "there are as many schedules as there may be, %d", api.MaxSchedules)
			e.RetryAfter = retrySchedules
			return e
		}
		query = "INSERT INTO schedules (" + scheduleColumns + ", payload) VALUES (:id, :definition, :next_at, :last_at, :created_at, :updated_at, :payload)"
	case moved:
		query += ", next_at = :next_at WHERE id = :id"
	default:
		query += " WHERE id = :id"
	}
	_, err := tx.NamedExecContext(ctx, query, row)
	return err
}

// last is the time of the last job, zero if there was none.
func (r scheduleRow) last() time.Time {
	if r.LastAt == nil {
		return time.Time{}
	}
	return time.UnixMilli(*r.LastAt)
}

// Schedule reads one schedule and the database's clock; api.CodeNotFound when there is none.
func (db *DB) Schedule(ctx context.Context, id string) (s *api.Schedule, now time.Time, err error) {
	var row scheduleRow
	err = db.get(ctx, &row, "SELECT "+scheduleColumns+", payload, "+db.d.now+" AS now_ms FROM schedules WHERE id = ?", id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, now, api.Errorf(api.CodeNotFound, "there is no schedule %s", id)
	}
	if err != nil {
		return nil, now, err
	}
	s, err = row.decode()
	return s, time.UnixMilli(row.Now), err
}

// Schedules reads at most limit schedules by their ids, from the one after a given id on ("": from the first). They are
// without payloads.
func (db *DB) Schedules(ctx context.Context, after string, limit int) ([]api.Schedule, error) {
	var found []scheduleRow
	err := db.list(ctx, &found, "SELECT "+scheduleColumns+" FROM schedules WHERE id > ? ORDER BY id LIMIT ?", after, limit)
	if err != nil {
		return nil, err
	}
	all := make([]api.Schedule, 0, len(found))
	for _, row := range found {
		s, err := row.decode()
		if err != nil {
			return nil, err
		}
		all = append(all, *s)
	}
	return all, nil
}

// DeleteSchedule removes a schedule. If there is none, nothing changes.
func (db *DB) DeleteSchedule(ctx context.Context, id string) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		if err := db.raise(ctx, tx, versionSchedules); err != nil {
			return err
		}
		return changed(tx.ExecContext(ctx, "DELETE FROM schedules WHERE id = ?", id))
	})
}

// ScheduleTime is the next due time of a schedule, and the database's clock when it was read, in ms.
type ScheduleTime struct {
	ID     string `db:"id"`
	NextAt int64  `db:"next_at"`
	Now    int64  `db:"now_ms"`
}

// ScheduleTimes lists the schedules whose next due time is at most ahead from now, the earliest first.
func (db *DB) ScheduleTimes(ctx context.Context, ahead time.Duration) (all []ScheduleTime, err error) {
	err = db.list(ctx, &all, "SELECT id, next_at, "+db.d.now+" AS now_ms FROM schedules WHERE next_at <= "+db.d.now+" + ? ORDER BY next_at", ahead.Milliseconds())
	return all, err
}

// ScheduleRun says that the job of a schedule's due time Last was enqueued, when From was its next due time on record, and
// that Next is the one after it.
type ScheduleRun struct {
	ID               string
	From, Last, Next time.Time
}

// AdvanceSchedules notes runs of different schedules, at least one, in one statement. It changes nothing of a schedule whose
// next due time on record is no longer From, or that is gone.
func (db *DB) AdvanceSchedules(ctx context.Context, runs []ScheduleRun) error {
	// The ELSE is never reached: it says that the values are numbers, which PostgreSQL cannot tell of parameters.
	ids, of := make([]string, len(runs)), "CASE id"+strings.Repeat(" WHEN ? THEN ?", len(runs))+" ELSE next_at END"
	var froms, nexts, lasts []any
	for i, r := range runs {
		ids[i] = r.ID
		froms, nexts, lasts = append(froms, r.ID, r.From.UnixMilli()), append(nexts, r.ID, r.Next.UnixMilli()), append(lasts, r.ID, r.Last.UnixMilli())
	}
	args := slices.Concat(nexts, lasts, []any{ids}, froms)
	return db.exec(ctx, "UPDATE schedules SET next_at = "+of+", last_at = "+of+" WHERE id IN (?) AND next_at = "+of, args...)
}

func (r scheduleRow) decode() (*api.Schedule, error) {
	s := &api.Schedule{ID: r.ID, NextAt: api.AtMillis(r.NextAt), LastAt: timeOf(r.LastAt), CreatedAt: api.AtMillis(r.CreatedAt), UpdatedAt: api.AtMillis(r.UpdatedAt)}
	if err := json.Unmarshal([]byte(r.Definition), &s.ScheduleRequest); err != nil {
		return nil, fmt.Errorf("decode schedule %s: %w", r.ID, err)
	}
	if r.Payload != "" {
		s.Payload = json.RawMessage(r.Payload)
	}
	return s, nil
}
