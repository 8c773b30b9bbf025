package live

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

const (
	// presenceTTL is how long a user counts as live after he was last seen: when a
	// stream began, or when something was written that is known to have arrived.
	presenceTTL = 30 * time.Second
	// endTimeout bounds the removal of a presence whose stream has ended.
	endTimeout = time.Second
)

// userStreams is a user's open streams in this process.
type userStreams struct {
	open     int
	lastSeen time.Time
	recorded time.Time // the lastSeen that Redis has
	deleted  int       // how often his key was deleted meanwhile
}

// sighting is when a user was last seen, after so many deletions of his key.
type sighting struct {
	user    string
	at      time.Time
	deleted int
}

// presencePatience is how long a stream waits to be present before it begins. What takes
// longer is done beside it: its user may get a push of what the stream delivers.
const presencePatience = time.Second

// beginPresence makes a user present, before his stream begins.
func (h *Hub) beginPresence(ctx context.Context, user string) {
	ctx, cancel := context.WithTimeout(ctx, presencePatience)
	defer cancel()
	seen := h.opened(user, time.Now())
	if err := h.db.Share(ctx, redisdb.Write, h.presenceCmd(ctx, seen)); err != nil {
		h.log.Debug("a presence is written later", "error", err)
		return
	}
	h.record([]sighting{seen})
}

// opened counts a stream of a user. It comes before his key is written: whoever deletes
// the key because an earlier stream has ended then sees that it has to be written again.
func (h *Hub) opened(user string, now time.Time) sighting {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.present[user]
	if u == nil {
		u = &userStreams{}
		h.present[user] = u
	}
	u.open++
	u.lastSeen = now
	return sighting{user, now, u.deleted}
}

// Reached says that what was written at that time has arrived: the user is live
// for 30 s from then on. A proxy that takes it although its client has vanished
// can't be told from the client.
func (st *Stream) Reached(written time.Time) {
	h := st.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.present[st.user]; u != nil && written.After(u.lastSeen) {
		u.lastSeen = written
	}
}

// presenceCmd makes a user present, in the name of this process, until 30 s
// after he was seen.
func (h *Hub) presenceCmd(ctx context.Context, s sighting) redis.Cmder {
	left := presenceTTL - time.Since(s.at)
	return redis.NewStatusCmd(ctx, "set", PresenceKey(s.user), h.owner, "px", max(1, left.Milliseconds()))
}

// endPresence is called when one of a user's streams has ended. After the last
// one he is not present any more, unless another process has written its own
// name since. If this process wrote last while another one holds a stream of
// his, he may get a push beside the stream until that one renews.
func (h *Hub) endPresence(ctx context.Context, user string) {
	h.mu.Lock()
	u := h.present[user]
	u.open--
	last := u.open == 0
	if last {
		delete(h.present, user)
	}
	h.mu.Unlock()
	if !last {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	cmd := redisdb.DeleteIf(ctx, PresenceKey(user), h.owner)
	if err := h.db.Share(ctx, redisdb.Write, cmd); err != nil {
		h.log.Debug("a presence ends by its time to live", "error", err)
	}
	h.recordAgain(user)
}

// recordAgain has a user's presence written again if he opened a stream while
// the key was being deleted.
func (h *Hub) recordAgain(user string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.present[user]; u != nil {
		u.recorded = time.Time{}
		u.deleted++
	}
}

// renewPresence renews all users of this process who were seen since the last
// time, in pipelines.
func (h *Hub) renewPresence(ctx context.Context, now time.Time) {
	for seen := range slices.Chunk(h.unrecorded(now), batchSize) {
		cmds := make([]redis.Cmder, len(seen))
		for i, s := range seen {
			cmds[i] = h.presenceCmd(ctx, s)
		}
		if err := h.db.Pipeline(ctx, redisdb.Write, cmds...); err != nil {
			h.log.Debug("renewing presence", "error", err)
		}
		var written []sighting
		for i, s := range seen {
			if cmds[i].Err() == nil { // else the next call renews it
				written = append(written, s)
			}
		}
		h.record(written)
	}
}

func (h *Hub) unrecorded(now time.Time) (seen []sighting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for user, u := range h.present {
		if u.lastSeen.After(u.recorded) && now.Sub(u.lastSeen) < presenceTTL {
			seen = append(seen, sighting{user, u.lastSeen, u.deleted})
		}
	}
	return seen
}

// record notes what was written and not deleted since.
func (h *Hub) record(seen []sighting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range seen {
		if u := h.present[s.user]; u != nil && u.deleted == s.deleted {
			u.recorded = s.at
		}
	}
}
