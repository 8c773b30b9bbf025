package contacts

import (
	"context"
	"fmt"
	"slices"

	"fanfare/api"
	"fanfare/store/queue"
)

// raiseBatch is how many followers' indexes one pipeline raises: it holds Redis
// for well under a millisecond.
const raiseBatch = 250

// fanOut raises the owner of an upload in the indexes of everyone who may see
// it, some pages of followers in one run; the task remembers how far it came.
// Everything is read again for each page, so that a deletion or a narrowed
// visibility takes effect at once.
func (s *Store) fanOut(ctx context.Context, c *queue.Claimed, t *task) (more bool, err error) {
	if t.After == "" {
		open, err := s.rec.OutboxOpen(ctx, t.Outbox)
		if err != nil || !open {
			return false, err
		}
	}
	for range s.o.JobPages {
		u, err := s.rec.Upload(ctx, t.Upload)
		if err != nil {
			return false, err
		}
		if u == nil || u.Visibility == api.VisiblePrivate {
			return false, s.close(ctx, t.Outbox)
		}
		last, err := s.fanOutPage(ctx, c, u, t)
		if err != nil {
			return false, err
		}
		if last {
			return false, s.close(ctx, t.Outbox)
		}
	}
	return true, nil
}

// fanOutPage does one page and moves the task behind it; last tells that there
// is no other.
func (s *Store) fanOutPage(ctx context.Context, c *queue.Claimed, u *api.Upload, t *task) (last bool, err error) {
	page, err := s.rec.Followers(ctx, u.Owner, u.Visibility, t.After, s.o.Page)
	if err != nil {
		return false, fmt.Errorf("read followers: %w", err)
	}
	users := make([]string, 0, len(page))
	for _, f := range page {
		if f.Follows && u.Visibility.Shows(f.Shown) {
			users = append(users, f.User)
		}
	}
	e := entry{u.Owner, u.UploadedAt.UnixMilli()}
	for part := range slices.Chunk(users, raiseBatch) {
		if !c.Alive() {
			return false, errLost
		}
		if err := s.index.raise(ctx, part, e); err != nil {
			return false, err
		}
	}
	if len(page) > 0 {
		t.After = page[len(page)-1].User
	}
	return len(page) < s.o.Page, nil
}
