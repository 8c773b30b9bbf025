package contacts

import (
	"context"
	"time"

	"fanfare/api"
	"fanfare/store/record"
)

// slack is the number of additional entries that are read from Redis at once, because some may be
// stale. SQL is asked about them only if some are.
const slack = 6

// defaultRecent is how many contacts a read lists without a limit.
const defaultRecent = 10

// RecentContacts lists the contacts of a user with the most recent uploads that the user may see,
// newest first, and by descending contact id for equal times. It lists as many as the limit, or all
// if there are fewer. Complete is false only while a rebuild may hide contacts. A limit of 0 is the
// default, and a limit above Options.Max is CodeValidation.
func (s *Store) RecentContacts(ctx context.Context, user string, limit int) (*api.RecentContacts, error) {
	if limit > s.o.Max {
		return nil, api.Invalid("limit", "max", "must be at most %d (FANFARE_CONTACTS_MAX)", s.o.Max)
	}
	if limit == 0 {
		limit = min(defaultRecent, s.o.Max)
	}
	found, complete, err := s.recent(ctx, user, limit)
	if err != nil {
		return nil, err
	}
	out := &api.RecentContacts{Items: make([]api.RecentContact, len(found)), Complete: complete}
	for i, a := range found {
		out.Items[i] = api.RecentContact{Contact: a.Contact, Relationship: a.Relationship, LastUploadAt: api.AtMillis(*a.LastUpload)}
	}
	return out, nil
}

// RecentUploads lists the newest uploads, visible to the user, of the first of
// the recent contacts.
func (s *Store) RecentUploads(ctx context.Context, user string, limit int) (*api.RecentUploads, error) {
	out := &api.RecentUploads{Items: []api.RecentUpload{}}
	for range readTries { // the first contact may change between two queries
		found, complete, err := s.recent(ctx, user, 1)
		if err == nil && !complete {
			found, err = s.firstFromRecord(ctx, user) // the answer has no field for not being complete, so SQL must decide
		}
		if err != nil || len(found) == 0 {
			return &api.RecentUploads{Items: []api.RecentUpload{}}, err
		}
		items, err := s.rec.NewestUploads(ctx, user, found[0].Contact, limit)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			continue
		}
		out = &api.RecentUploads{Contact: &found[0].Contact, Items: items}
		if items[0].UploadedAt.UnixMilli() >= *found[0].LastUpload {
			break // still the first contact
		}
	}
	return out, nil
}

// readTries is how often a read tries again after a build that had begun before the read, or after
// another contact became the first.
const readTries = 3

// recent answers from the index if the index proves the answer, and otherwise from SQL. A build
// that began before this read may have read a contact before an upload that this read must show.
// After such a build it reads again.
func (s *Store) recent(ctx context.Context, user string, n int) ([]record.Activity, bool, error) {
	came := time.Now()
	var verified *ranking
	for range readTries {
		var proven bool
		var err error
		if verified, proven, err = s.fromIndex(ctx, user, n); err != nil || proven {
			return verified.list, true, err
		}
		b, err := s.rebuildInline(ctx, user)
		if err != nil {
			return nil, false, err
		}
		if !b.finished {
			break
		}
		if !b.began.Before(came) {
			return b.ranked.first(n), true, nil
		}
	}
	return verified.list, false, nil
}

// fromIndex returns the best n entries of the index, with their times checked in SQL, and whether
// they are proven to be the answer. It first reads a few more entries than needed, and then all.
func (s *Store) fromIndex(ctx context.Context, user string, n int) (*ranking, bool, error) {
	verified := &ranking{size: n}
	for _, count := range []int{n + slack, s.o.Max} {
		w, err := s.index.read(ctx, user, count)
		if err != nil {
			return verified, false, err
		}
		var proven bool
		verified, proven, err = s.verify(ctx, user, n, w)
		if err != nil || proven || w.all() {
			return verified, proven, err
		}
	}
	return verified, false, nil
}

// verify reads from SQL the activities of a window's entries, in descending order, until the n-th
// best of them ranks at or above everything that has not been read. It lowers stale scores.
func (s *Store) verify(ctx context.Context, user string, n int, w *indexWindow) (*ranking, bool, error) {
	best := &ranking{size: n, list: make([]record.Activity, 0, min(n, len(w.entries)))}
	var wrong []stale
	proven := false
	for from, step := 0, n; from < len(w.entries) && !proven; step = 2*step + slack {
		to := min(from+step, len(w.entries))
		more, err := s.rank(ctx, user, w.entries[from:to], best)
		if err != nil {
			return best, false, err
		}
		wrong = append(wrong, more...)
		proven = w.state == stateReady && w.proves(best, n, to)
		from = to
	}
	if len(wrong) > 0 {
		s.lower(ctx, user, w.sequence, wrong)
	}
	return best, proven || w.state == stateReady && w.all() && w.floor == nil, nil
}

// proves reports whether the best n are the best of all, if SQL was asked about the entries before
// `asked`.
func (w *indexWindow) proves(best *ranking, n, asked int) bool {
	if len(best.list) < n {
		return false
	}
	last := entryOf(best.list[n-1])
	if w.floor != nil && last.less(*w.floor) {
		return false
	}
	switch {
	case asked < len(w.entries):
		return !last.less(w.entries[asked])
	case w.all():
		return true
	}
	return !last.less(w.entries[asked-1]) // the next entry is not known, but ranks below this one
}

// rank adds entries to best, with their times in SQL, which it reads in one query. It returns the
// entries whose score is too high.
func (s *Store) rank(ctx context.Context, user string, entries []entry, best *ranking) ([]stale, error) {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.contact
	}
	found, err := s.truth.ask(ctx, record.ActivityQuery{Viewer: user, Contacts: names})
	if err != nil {
		return nil, err
	}
	var wrong []stale
	for i, e := range entries {
		a := found[i]
		if a.LastUpload == nil || *a.LastUpload < e.at {
			wrong = append(wrong, stale{e, a.LastUpload})
		}
		best.add(a)
	}
	return wrong, nil
}

// lower corrects stale scores. This only saves work for the next reader. If it fails, the next
// reader finds them again.
func (s *Store) lower(ctx context.Context, user, sequence string, wrong []stale) {
	if err := s.index.lower(ctx, user, sequence, wrong); err != nil {
		s.o.Logger.DebugContext(ctx, "stale scores stay", "error", err)
	}
}
