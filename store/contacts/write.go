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

// PutContact makes contact one of the user's contacts, or changes what the user
// calls it. The user's own recent contacts show it at once where they can; a job
// sees to it in any case.
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

// DeleteContact ends a relationship, also one that is not there.
func (s *Store) DeleteContact(ctx context.Context, user, contact string) error {
	w, err := s.rec.RemoveContact(ctx, user, contact)
	if err != nil {
		return fmt.Errorf("delete contact: %w", err)
	}
	s.announceContact(ctx, w, record.Pair{Owner: user, Contact: contact})
	return nil
}

// announceContact enqueues the job of a committed change of relationship, and
// writes the change into the owner's index without waiting for the job.
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

// PostUpload puts an upload on record and leaves its fan-out to a job. created
// is false for an id that was there already: nothing changes then, but a fan-out
// that is not done is announced again.
func (s *Store) PostUpload(ctx context.Context, r *api.UploadRequest, once api.Idempotency) (u *api.Upload, created, replayed bool, err error) {
	w, replayed, err := s.rec.PutUpload(ctx, r, once)
	if err != nil {
		return nil, false, false, fmt.Errorf("post upload: %w", err)
	}
	s.announceUpload(ctx, w)
	return w.Upload, w.Created, replayed, nil
}

// SetVisibility changes who may see an upload. When that shows it to someone
// new, a job raises their indexes; when it hides it, their reads find out.
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

// DeleteUpload removes an upload, also one that is not there. Reads find out by
// themselves.
func (s *Store) DeleteUpload(ctx context.Context, id string) error {
	if err := s.rec.DeleteUpload(ctx, id); err != nil {
		return fmt.Errorf("delete upload: %w", err)
	}
	return nil
}

// Rebuild leaves it to a job that begins after the call to build a user's index
// again from nothing. Calls that come while such a job waits share it: a user has
// at most one that runs and one that waits. It answers with an id of the call;
// replayed: with that of an earlier call.
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

// enqueueRebuild enqueues a job, and a second one when the first is merged into
// another, which may have begun. (Enqueued again, a job tells which it is.) When
// the second is merged too, one of the two still waits or began after the call.
func (s *Store) enqueueRebuild(ctx context.Context, first, second queue.Job) error {
	got, err := s.jobs.Enqueue(ctx, first)
	if err == nil && got[0].ID != first.ID {
		_, err = s.jobs.Enqueue(ctx, second)
	}
	return err
}

// enqueue announces committed changes. A queue that is away costs no change:
// their outbox rows stay, and the sweeper comes by.
func (s *Store) enqueue(ctx context.Context, jobs ...queue.Job) {
	if _, err := s.jobs.Enqueue(ctx, jobs...); err != nil {
		level := slog.LevelWarn
		if api.Passing(err) { // Redis has lines of its own
			level = slog.LevelDebug
		}
		s.o.Logger.Log(ctx, level, "changes of contacts wait for the sweeper", "jobs", len(jobs), "error", err)
	}
}
