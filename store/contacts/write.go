package contacts

import (
	"context"
	"fmt"
	"log/slog"

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

// Rebuild begins an operation that builds a user's index again from nothing. A call gets the
// operation that waits, if there is one, so that a user has at most one rebuild that runs and one
// that waits. replayed says that the answer is from an earlier call.
func (s *Store) Rebuild(ctx context.Context, user string, once api.Idempotency) (r *api.Rebuild, replayed bool, err error) {
	o := record.NewOperation{Action: api.ActionRebuild, Subject: user, Kind: record.KindRebuild, OutboxSubject: user, Since: s.index.db.Clock().UnixMilli()}
	id, replayed, err := s.rec.StartOperation(ctx, o, once)
	if err != nil {
		return nil, false, fmt.Errorf("rebuild recent contacts: %w", err)
	}
	if !replayed {
		s.announce(ctx, requestedRebuild(id, user))
	}
	return &api.Rebuild{ID: id}, replayed, nil
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
