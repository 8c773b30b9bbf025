package app

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/store/badges"
)

// unreadAtOnce is how many users' chats are read at once for the numbers of events.
const unreadAtOnce = 8

// unreadPatience is how long an event waits for chats that cannot be read. It outlasts a fail-over.
const unreadPatience = 30 * time.Second

// numbers gives users the numbers that events show on the icon of their app.
func (a *app) numbers(ctx context.Context, asks []badges.Ask) []badges.Reached {
	out := make([]badges.Reached, len(asks))
	var kept []badges.Ask // those whose number is the badge
	var of []int          // their places
	var g errgroup.Group
	g.SetLimit(unreadAtOnce)
	for i, ask := range asks {
		if ask.Mode != api.BadgeUnread {
			kept, of = append(kept, ask), append(of, i)
			continue
		}
		g.Go(func() error {
			n, err := a.chats.UnreadChats(ctx, ask.User)
			if err != nil && ask.Age > unreadPatience {
				n, err = max(n, 1), nil // the event tells of an unread message
			}
			out[i] = badges.Reached{Count: min(n, api.MaxBadge), Err: err}
			return nil
		})
	}
	if len(kept) > 0 {
		for k, r := range a.badges.Reach(ctx, kept) {
			out[of[k]] = r
		}
	}
	_ = g.Wait() // each user has an error of its own
	return out
}
