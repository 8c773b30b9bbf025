package contacts

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
)

// raiseBatch is the number of indexes that one script raises, or on a Cluster one pipeline of
// scripts. It occupies Redis for well under a millisecond.
const raiseBatch = 100

// pageAbreast is the number of batches of a page that are under way at once: while Redis works on
// one batch, another one is written and the next page is read.
const pageAbreast = 3

// fanOut raises the owner of an upload in the indexes of everyone who may see it. One run does some
// pages of followers, and the task remembers how far it came. The upload is read again for each
// page, so that a deletion or a narrowed visibility takes effect at once.
func (s *Store) fanOut(ctx context.Context, c *queue.Claimed, t *task) (more bool, err error) {
	if t.After == "" {
		open, err := s.rec.OutboxOpen(ctx, t.Outbox)
		if err != nil || !open {
			return false, err
		}
	}
	var page *followersPage
	for range s.o.JobPages {
		u, err := s.rec.Upload(ctx, t.Upload)
		if err != nil {
			return false, err
		}
		if u == nil || u.Visibility == api.VisiblePrivate {
			return false, s.close(ctx, t.Outbox)
		}
		if page == nil || page.of != u.Visibility {
			if page, err = s.followers(ctx, u, t.After); err != nil {
				return false, err
			}
		}
		if page, err = s.fanOutPage(ctx, c, u, t, page); err != nil {
			return false, err
		}
		if page == nil {
			return false, s.close(ctx, t.Outbox)
		}
	}
	return true, nil
}

// followersPage is one page of the users whose indexes an upload of some visibility may concern.
type followersPage struct {
	of   api.Visibility
	list []record.Follower
}

func (s *Store) followers(ctx context.Context, u *api.Upload, after string) (*followersPage, error) {
	list, err := s.rec.Followers(ctx, u.Owner, u.Visibility, after, s.o.Page)
	if err != nil {
		return nil, fmt.Errorf("read followers: %w", err)
	}
	return &followersPage{u.Visibility, list}, nil
}

// shown are the users of the page who may see an upload.
func (p *followersPage) shown(v api.Visibility) []string {
	users := make([]string, 0, len(p.list))
	for _, f := range p.list {
		if f.Follows && v.Shows(f.Shown) {
			users = append(users, f.User)
		}
	}
	return users
}

// fanOutPage does one page and moves the task behind it. It returns the next page, which it reads
// in the meantime; nil after the last page.
func (s *Store) fanOutPage(ctx context.Context, c *queue.Claimed, u *api.Upload, t *task, page *followersPage) (next *followersPage, err error) {
	after := t.After
	if n := len(page.list); n > 0 {
		after = page.list[n-1].User
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(pageAbreast)
	if len(page.list) == s.o.Page {
		g.Go(func() (err error) {
			next, err = s.followers(ctx, u, after)
			return err
		})
	}
	e := entry{u.Owner, u.UploadedAt.UnixMilli()}
	for part := range slices.Chunk(page.shown(u.Visibility), raiseBatch) {
		g.Go(func() error {
			if !c.Alive() {
				return errLost
			}
			return s.index.raise(ctx, part, e)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	t.After = after
	return next, nil
}
