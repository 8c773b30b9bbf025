package live

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

const (
	// presenceTTL is how long a user counts as live after the user was last seen. A user is seen
	// when a stream begins, and when data that was written is known to have arrived.
	presenceTTL = 30 * time.Second
	// endTimeout bounds the removal of a presence whose stream has ended.
	endTimeout = time.Second
)

// presence writes to Redis which users have open streams in this process.
type presence struct {
	db    *redisdb.DB
	log   *slog.Logger
	owner string // names this process in the keys

	mu    sync.Mutex
	users map[string]*userStreams
}

// userStreams is a user's open streams in this process.
type userStreams struct {
	open     int
	lastSeen time.Time
	recorded time.Time // the lastSeen that Redis has
	deleted  int       // how often the key was deleted in the meantime
}

// sighting is the time at which a user was last seen, with the number of deletions of the user's
// key before that.
type sighting struct {
	user    string
	at      time.Time
	deleted int
}

// presencePatience is how long the beginning of a stream waits until the user is present. Then the
// stream begins even so, and until renew succeeds the user may get pushes of messages that the
// stream delivers.
const presencePatience = time.Second

// begin makes a user present before the user's stream begins.
func (p *presence) begin(ctx context.Context, user string) {
	ctx, cancel := context.WithTimeout(ctx, presencePatience)
	defer cancel()
	seen := p.opened(user, time.Now())
	if err := p.db.Share(ctx, redisdb.Write, p.cmd(ctx, seen)); err != nil {
		p.log.Debug("a presence is written later", "error", err)
		return
	}
	p.record([]sighting{seen})
}

// opened counts a stream of a user. It is called before the key is written. So if an earlier stream
// ends at the same time and deletes the key, end sees that the key has to be written again.
func (p *presence) opened(user string, now time.Time) sighting {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[user]
	if u == nil {
		u = &userStreams{}
		p.users[user] = u
	}
	u.open++
	u.lastSeen = now
	return sighting{user, now, u.deleted}
}

// seen records that data which was written to a user at that time has arrived.
func (p *presence) seen(user string, written time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.users[user]; u != nil && written.After(u.lastSeen) {
		u.lastSeen = written
	}
}

// cmd makes a user present, in the name of this process, until 30 s after the user was seen.
func (p *presence) cmd(ctx context.Context, s sighting) redis.Cmder {
	left := presenceTTL - time.Since(s.at)
	return redis.NewStatusCmd(ctx, "set", PresenceKey(s.user), p.owner, "px", max(1, left.Milliseconds()))
}

// end is called when one of a user's streams has ended. After the last one the user is no longer
// present, unless another process has written its own name since. If another process has a stream
// of the user but this process was the last to write its name, the user may get pushes in addition
// to the stream until the other process renews the presence.
func (p *presence) end(ctx context.Context, user string) {
	p.mu.Lock()
	u := p.users[user]
	u.open--
	last := u.open == 0
	if last {
		delete(p.users, user)
	}
	p.mu.Unlock()
	if !last {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	cmd := redisdb.DeleteIf(ctx, PresenceKey(user), p.owner)
	if err := p.db.Share(ctx, redisdb.Write, cmd); err != nil {
		p.log.Debug("a presence ends by its time to live", "error", err)
	}
	p.recordAgain(user)
}

// recordAgain lets a user's presence be written again if the user opened a stream while the key was
// being deleted.
func (p *presence) recordAgain(user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.users[user]; u != nil {
		u.recorded = time.Time{}
		u.deleted++
	}
}

// renew renews all users of this process who were seen since the last
// time, in pipelines.
func (p *presence) renew(ctx context.Context, now time.Time) {
	for seen := range slices.Chunk(p.unrecorded(now), batchSize) {
		cmds := make([]redis.Cmder, len(seen))
		for i, s := range seen {
			cmds[i] = p.cmd(ctx, s)
		}
		if err := p.db.Pipeline(ctx, redisdb.Write, cmds...); err != nil {
			p.log.Debug("renewing presence", "error", err)
		}
		var written []sighting
		for i, s := range seen {
			if cmds[i].Err() == nil { // otherwise the next call renews it
				written = append(written, s)
			}
		}
		p.record(written)
	}
}

func (p *presence) unrecorded(now time.Time) (seen []sighting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for user, u := range p.users {
		if u.lastSeen.After(u.recorded) && now.Sub(u.lastSeen) < presenceTTL {
			seen = append(seen, sighting{user, u.lastSeen, u.deleted})
		}
	}
	return seen
}

// record records which sightings were written, unless the key was deleted since.
func (p *presence) record(seen []sighting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range seen {
		if u := p.users[s.user]; u != nil && u.deleted == s.deleted {
			u.recorded = s.at
		}
	}
}
