package contacts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
)

// The types of the background jobs, in the queue "jobs".
const (
	// JobContact brings two users' indexes in line with a changed relationship.
	JobContact = "contacts.contact"
	// JobUpload raises an upload's owner in the indexes of those who may see it.
	JobUpload = "contacts.upload"
	// JobRebuild builds a user's index from SQL.
	JobRebuild = "contacts.rebuild"
)

// Jobs are the handlers for the queue "jobs", by type. That queue should have no MaxAge, because
// these jobs wait as long as SQL or Redis is away.
func (s *Store) Jobs() map[string]func(context.Context, *queue.Claimed) queue.Result {
	return map[string]func(context.Context, *queue.Claimed) queue.Result{
		JobContact: job(s.contactChanged),
		JobUpload:  job(s.fanOut),
		JobRebuild: job(s.rebuild),
	}
}

// task is the payload of every job. It has names only. The present state is read when the job runs.
type task struct {
	Outbox string `json:"outbox,omitempty"` // id of the row that is deleted at the end
	record.Pair
	Upload string `json:"upload,omitempty"`
	After  string `json:"after,omitempty"` // the last follower done
	User   string `json:"user,omitempty"`
	Reset  bool   `json:"reset,omitempty"`
}

func (t task) encode() []byte {
	b, _ := json.Marshal(t) // encoding strings and bools cannot fail
	return b
}

// An outbox row has at most one live job: its id is the job's unique id.
func contactJob(row string, p record.Pair) queue.Job {
	return queue.Job{Type: JobContact, Unique: row, Payload: task{Outbox: row, Pair: p}.encode()}
}

func uploadJob(row, upload string) queue.Job {
	return queue.Job{Type: JobUpload, Unique: row, Payload: task{Outbox: row, Upload: upload}.encode()}
}

// rebuildJob fills a user's index up. A user has at most one live job of this kind, and at most one
// rebuild of a user runs at a time.
func rebuildJob(user string) queue.Job {
	return queue.Job{Type: JobRebuild, Key: rebuildKey(user), Unique: rebuildKey(user), Payload: task{User: user}.encode()}
}

func rebuildKey(user string) string { return "rebuild:" + user }

// requestedRebuild builds a user's index from nothing. Its outbox row is that of its operation.
func requestedRebuild(row, user string) queue.Job {
	return queue.Job{Type: JobRebuild, Key: rebuildKey(user), Unique: row, Payload: task{Outbox: row, User: user, Reset: true}.encode()}
}

// errLost ends a job whose lease is over, so that another process may have the job.
var errLost = errors.New("the lease is over")

// errLater asks for another try soon, although nothing failed.
var errLater = errors.New("another process builds this index")

// job makes a handler of a method. The method gets the task, may change it to record progress, and
// returns whether there is more to do. Errors never use up attempts, because the change is on
// record and its job must not become a dead letter.
func job(f func(context.Context, *queue.Claimed, *task) (more bool, err error)) func(context.Context, *queue.Claimed) queue.Result {
	return func(ctx context.Context, c *queue.Claimed) queue.Result {
		var t task
		if err := json.Unmarshal(c.Payload, &t); err != nil {
			return queue.Result{Outcome: queue.Dead, Reason: "bad_payload", Err: err.Error()}
		}
		before := t
		more, err := f(ctx, c, &t)
		switch {
		case err == nil && !more:
			return queue.Result{Outcome: queue.Done}
		case err == nil || t != before: // the progress is kept
			return queue.Result{Outcome: queue.Continue, Payload: t.encode()}
		case errors.Is(err, errLost), errors.Is(err, context.Canceled):
			return queue.Result{Outcome: queue.Release}
		case errors.Is(err, errLater):
			return queue.Result{Outcome: queue.Defer, Delay: time.Second, Reason: "waiting", Err: err.Error()}
		}
		return queue.Result{Outcome: queue.Defer, Reason: string(api.CodeOf(err)), Err: err.Error()}
	}
}

// contactChanged updates both sides of a changed relationship: the contact is added to the owner's
// index or removed from it, and the contact may now see more uploads of the owner.
func (s *Store) contactChanged(ctx context.Context, _ *queue.Claimed, t *task) (bool, error) {
	if err := s.syncOne(ctx, t.Owner, t.Contact); err != nil {
		return false, err
	}
	if t.Owner != t.Contact {
		if err := s.syncOne(ctx, t.Contact, t.Owner); err != nil {
			return false, err
		}
	}
	return false, s.close(ctx, t.Outbox)
}

// syncTries is how often a change is read again because of other changes in between.
const syncTries = 10

// syncOne writes the present state of one contact into a user's index.
func (s *Store) syncOne(ctx context.Context, user, contact string) error {
	return s.sync(ctx, user, []string{contact})
}

// sync writes the present state of some contacts into a user's index. The counter is read before
// SQL and compared at the write, so that changes of the same user end with the newest version, in
// any order and even at the same time.
func (s *Store) sync(ctx context.Context, user string, contacts []string) error {
	for range syncTries {
		relations, ok, err := s.index.relations(ctx, user)
		if err != nil || !ok {
			return err
		}
		found, err := s.truth.ask(ctx, record.ActivityQuery{Viewer: user, Contacts: contacts})
		if err != nil {
			return err
		}
		changes := changesOf(contacts, found)
		if len(changes) == 0 {
			return nil
		}
		out, err := s.index.sync(ctx, user, relations, changes...)
		if err != nil || out.status == syncNoIndex {
			return err
		}
		if out.status == syncWritten {
			if out.floor && out.trusted < int64(s.o.Min) {
				s.announce(ctx, rebuildJob(user))
			}
			return nil
		}
	}
	return fmt.Errorf("sync contact: the contacts of %s keep changing", user)
}

// changesOf makes the changes of an index from the answers of SQL. It leaves out contacts without
// a visible upload: a fan-out may know a newer upload than this answer, and only reads remove a
// contact.
func changesOf(contacts []string, found []record.Activity) []present {
	changes := make([]present, 0, len(contacts))
	for i, a := range found {
		if a.Contact == "" || a.LastUpload != nil {
			changes = append(changes, present{contacts[i], a.LastUpload})
		}
	}
	return changes
}

// rebuild fills a user's index up, or builds it from nothing. The right to build belongs to the
// job's id, so that a process that takes the job over has the right too.
func (s *Store) rebuild(ctx context.Context, c *queue.Claimed, t *task) (bool, error) {
	if t.Outbox != "" { // who asks from here on gets another rebuild, because this one has begun
		if open, err := s.rec.EndTurn(ctx, t.Outbox); err != nil || !open {
			return false, err
		}
	}
	leave, ok := enter(ctx, s.fullScans, scanPatience)
	if !ok {
		return false, errLater
	}
	defer leave()
	b := &build{x: s.index, user: t.User, token: c.ID, over: readerToken, lease: jobLease}
	mine, err := b.begin(ctx, t.Reset)
	if err != nil {
		return false, err
	}
	if !mine {
		return false, errLater
	}
	_, status, err := s.run(ctx, b, 0)
	if err == nil && status != buildMoved && t.Outbox != "" {
		err = s.rec.EndOperation(ctx, t.Outbox)
	}
	return status == buildMoved, err
}
