package contacts

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
)

// PutContact makes contact one of the user's contacts, or changes the relationship. It updates the
// user's own recent contacts at once if it can; a job does so in any case.
func (s *Store) PutContact(ctx context.Context, user, contact string, r *api.ContactRequest) (c *api.Contact, created bool, err error) {
	w, err := s.rec.PutContact(ctx, record.Contact{
		Owner: user, Contact: contact, Relationship: string(r.Relationship), Version: s.index.db.Clock().UnixMilli(),
	})
	if err != nil {
		return nil, false, fmt.Errorf("put contact: %w", err)
	}
	s.announceContact(ctx, w, record.Pair{Owner: user, Contact: contact})
	return &api.Contact{Contact: contact, Relationship: r.Relationship}, w.Created, nil
}

// PutContacts makes users contacts of one user, or changes the relationships, all or none, once per
// idempotency key. It updates the indexes at once if it can; the sweeper does so otherwise.
func (s *Store) PutContacts(ctx context.Context, user string, list []api.Contact, once api.Idempotency) (replayed bool, err error) {
	version := s.index.db.Clock().UnixMilli()
	contacts := make([]record.Contact, len(list))
	for i, c := range list {
		contacts[i] = record.Contact{Owner: user, Contact: c.Contact, Relationship: string(c.Relationship), Version: version}
	}
	row, replayed, err := s.rec.PutContactBatch(ctx, user, contacts, once)
	if err != nil {
		return false, fmt.Errorf("put contacts: %w", err)
	}
	if row.ID != "" {
		s.batched(ctx, row)
	}
	return replayed, nil
}

// DeleteContact ends a relationship. If there is none, nothing changes.
func (s *Store) DeleteContact(ctx context.Context, user, contact string) error {
	w, err := s.rec.RemoveContact(ctx, user, contact)
	if err != nil {
		return fmt.Errorf("delete contact: %w", err)
	}
	s.announceContact(ctx, w, record.Pair{Owner: user, Contact: contact})
	return nil
}

// announceContact enqueues the job for a committed change of a relationship, and writes the change
// into the owner's index without waiting for the job.
func (s *Store) announceContact(ctx context.Context, w record.ContactWrite, p record.Pair) {
	if w.Outbox == "" {
		return
	}
	s.announce(ctx, contactJob(w.Outbox, p))
	if err := s.syncOne(ctx, p.Owner, p.Contact); err != nil {
		s.o.Logger.DebugContext(ctx, "a change of contacts waits for its job", "error", err)
	}
}

// Contacts lists a user's contacts by name, from SQL.
func (s *Store) Contacts(ctx context.Context, user, after string, limit int) ([]api.Contact, error) {
	return s.rec.Contacts(ctx, user, after, limit)
}

// PostUpload puts an upload on record and leaves its fan-out to a job. created is false if the id
// exists already. Then nothing changes, except that a fan-out that is not done is announced again.
func (s *Store) PostUpload(ctx context.Context, r *api.UploadRequest, once api.Idempotency) (u *api.Upload, created, replayed bool, err error) {
	w, replayed, err := s.rec.PutUpload(ctx, r, once)
	if err != nil {
		return nil, false, false, fmt.Errorf("post upload: %w", err)
	}
	s.announceUpload(ctx, w)
	return w.Upload, w.Created, replayed, nil
}

// SetVisibility changes who may see an upload. If more users may see it, a job raises their
// indexes. If fewer may see it, the reads of the others notice that.
func (s *Store) SetVisibility(ctx context.Context, id string, v api.Visibility) (*api.Upload, error) {
	w, err := s.rec.SetVisibility(ctx, id, v)
	if err != nil {
		return nil, fmt.Errorf("set visibility: %w", err)
	}
	s.announceUpload(ctx, w)
	return w.Upload, nil
}

func (s *Store) announceUpload(ctx context.Context, w record.UploadWrite) {
	jobs := make([]queue.Job, len(w.Outbox))
	for i, row := range w.Outbox {
		jobs[i] = uploadJob(row, w.Upload.ID)
	}
	if len(jobs) > 0 {
		s.announce(ctx, jobs...)
	}
}

// DeleteUpload removes an upload. If there is none, nothing changes. Reads notice the deletion by
// themselves.
func (s *Store) DeleteUpload(ctx context.Context, id string) error {
	if err := s.rec.DeleteUpload(ctx, id); err != nil {
		return fmt.Errorf("delete upload: %w", err)
	}
	return nil
}

// Rebuild enqueues a job that builds a user's index again from nothing. The job begins after the
// call. Calls that come while such a job waits share it, so that a user has at most one job that
// runs and one that waits. Rebuild returns an id of the call. replayed says that the id is from an
// earlier call.
func (s *Store) Rebuild(ctx context.Context, user string, once api.Idempotency) (r *api.Rebuild, replayed bool, err error) {
	job := rebuildJob(user, fromEmpty)
	job.Shard = s.jobs.Route(job.Key)
	job.ID = queue.NewID(job.Shard, time.Now())
	r = &api.Rebuild{ID: job.ID}
	if once.Key != "" {
		record := queue.Once{Key: once.Name(), Body: once.Body, TTL: api.IdempotencyTTL, Answer: job.ID}
		replayed, r.ID, err = s.jobs.EnqueueOnce(ctx, record, job)
	}
	if err == nil && !replayed {
		err = s.enqueueRebuild(ctx, job, rebuildJob(user, onceMore))
	}
	if err != nil {
		return nil, false, fmt.Errorf("rebuild recent contacts: %w", err)
	}
	return r, replayed, nil
}

// enqueueRebuild enqueues a job, and a second one if the first is merged into another job, which
// may have begun. The id that is returned tells into which. If the second is merged too, one of the
// two still waits or began after the call.
func (s *Store) enqueueRebuild(ctx context.Context, first, second queue.Job) error {
	got, err := s.jobs.Enqueue(ctx, first)
	if err == nil && got[0].ID != first.ID {
		_, err = s.jobs.Enqueue(ctx, second)
	}
	return err
}

// enqueue announces committed changes. If the queue is away, no change is lost: the outbox rows
// stay, and the sweeper announces them.
func (s *Store) enqueue(ctx context.Context, jobs ...queue.Job) {
	if _, err := s.jobs.Enqueue(ctx, jobs...); err != nil {
		level := slog.LevelWarn
		if api.Passing(err) { // the state of Redis is logged elsewhere
			level = slog.LevelDebug
		}
		s.o.Logger.Log(ctx, level, "changes of contacts wait for the sweeper", "jobs", len(jobs), "error", err)
	}
}
