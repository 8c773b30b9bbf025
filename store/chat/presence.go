package chat

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

const (
	// presenceTTL is how long a user counts as live after the last sign of it.
	presenceTTL = 30 * time.Second
	// renewEvery is how often a process that holds his stream gives one: twice
	// it may fail.
	renewEvery = 10 * time.Second
	// endPresence bounds the end of a presence whose stream is gone.
	endPresence = time.Second
)

// visit is a user's open streams in this process.
type visit struct {
	streams int
	renewed time.Time
}

// enter says that a user is live from now on, before his stream begins.
func (l *Live) enter(ctx context.Context, user string) error {
	if err := l.db.Share(ctx, redisdb.Write, l.presence(ctx, user)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.present[user]
	if v == nil {
		v = &visit{}
		l.present[user] = v
	}
	v.streams++
	v.renewed = time.Now()
	return nil
}

// presence is the command that marks a user as live, by this process.
func (l *Live) presence(ctx context.Context, user string) redis.Cmder {
	return redis.NewStatusCmd(ctx, "set", PresenceKey(user), l.owner, "px", presenceTTL.Milliseconds())
}

// exit says that one of a user's streams ended. After the last one he is not
// live any more, unless another process has marked him since. If that process
// is the one that marked him and this one still holds him, he may be told twice.
func (l *Live) exit(ctx context.Context, user string) {
	l.mu.Lock()
	v := l.present[user]
	v.streams--
	last := v.streams == 0
	if last {
		delete(l.present, user)
	}
	l.mu.Unlock()
	if !last {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPresence)
	defer cancel()
	cmd := redisdb.DeleteIf(ctx, PresenceKey(user), l.owner)
	if err := l.db.Share(ctx, redisdb.Write, cmd); err != nil {
		l.log.Debug("presence ends by its time", "error", err)
	}
}

// renew marks all users of this process whose mark grows old, in pipelines.
func (l *Live) renew(ctx context.Context, now time.Time) {
	users := l.due(now)
	for len(users) > 0 {
		n := min(len(users), batchSize)
		cmds := make([]redis.Cmder, n)
		for i, user := range users[:n] {
			cmds[i] = l.presence(ctx, user)
		}
		if err := l.db.Pipeline(ctx, redisdb.Write, cmds...); err != nil {
			l.log.Debug("renewing presence", "error", err)
			return // those not renewed are due again
		}
		l.renewed(users[:n], now)
		users = users[n:]
	}
}

func (l *Live) due(now time.Time) (users []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for user, v := range l.present {
		if now.Sub(v.renewed) >= renewEvery {
			users = append(users, user)
		}
	}
	return users
}

func (l *Live) renewed(users []string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, user := range users {
		if v := l.present[user]; v != nil {
			v.renewed = now
		}
	}
}
