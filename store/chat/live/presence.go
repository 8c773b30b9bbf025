package live

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

const (
	// presenceTTL is how long a user counts as live after the last sign of it: the
	// beginning of a stream, or a write that is known to have reached him.
	presenceTTL = 30 * time.Second
	// endPresence bounds the end of a presence whose stream is gone.
	endPresence = time.Second
)

// visit is a user's open streams in this process.
type visit struct {
	streams int
	signed  time.Time // the last sign that he is live
	marked  time.Time // the sign that Redis knows of
}

// sign is one sign that a user is live.
type sign struct {
	user string
	at   time.Time
}

// enter says that a user is live from now on, before his stream begins.
func (h *Hub) enter(ctx context.Context, user string) error {
	now := time.Now()
	if err := h.db.Share(ctx, redisdb.Write, h.presence(ctx, sign{user, now})); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.present[user]
	if v == nil {
		v = &visit{}
		h.present[user] = v
	}
	v.streams++
	v.signed, v.marked = now, now
	return nil
}

// Reached says that what was written at that time has arrived: the user is live
// for 30 s from then on. A proxy that takes it in the place of a client who has
// vanished can't be told from him.
func (st *Stream) Reached(written time.Time) {
	h := st.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := h.present[st.user]; v != nil && written.After(v.signed) {
		v.signed = written
	}
}

// presence is the command that marks a user as live, by this process, until the
// sign of it is too old.
func (h *Hub) presence(ctx context.Context, s sign) redis.Cmder {
	left := presenceTTL - time.Since(s.at)
	return redis.NewStatusCmd(ctx, "set", PresenceKey(s.user), h.owner, "px", max(1, left.Milliseconds()))
}

// exit says that one of a user's streams ended. After the last one he is not
// live any more, unless another process has marked him since. If that process
// is the one that marked him and this one still holds him, he may be told twice.
func (h *Hub) exit(ctx context.Context, user string) {
	h.mu.Lock()
	v := h.present[user]
	v.streams--
	last := v.streams == 0
	if last {
		delete(h.present, user)
	}
	h.mu.Unlock()
	if !last {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPresence)
	defer cancel()
	cmd := redisdb.DeleteIf(ctx, PresenceKey(user), h.owner)
	if err := h.db.Share(ctx, redisdb.Write, cmd); err != nil {
		h.log.Debug("presence ends by its time", "error", err)
	}
	h.unmark(user)
}

// unmark has a user marked again who came back while his presence was ended.
func (h *Hub) unmark(user string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := h.present[user]; v != nil {
		v.marked = time.Time{}
	}
}

// renew marks all users of this process of whom there is a new sign, in
// pipelines.
func (h *Hub) renew(ctx context.Context, now time.Time) {
	for signs := range slices.Chunk(h.due(now), batchSize) {
		cmds := make([]redis.Cmder, len(signs))
		for i, s := range signs {
			cmds[i] = h.presence(ctx, s)
		}
		if err := h.db.Pipeline(ctx, redisdb.Write, cmds...); err != nil {
			h.log.Debug("renewing presence", "error", err)
			return // those not marked are due again
		}
		h.renewed(signs)
	}
}

func (h *Hub) due(now time.Time) (signs []sign) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for user, v := range h.present {
		if v.signed.After(v.marked) && now.Sub(v.signed) < presenceTTL {
			signs = append(signs, sign{user, v.signed})
		}
	}
	return signs
}

func (h *Hub) renewed(signs []sign) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range signs {
		if v := h.present[s.user]; v != nil {
			v.marked = s.at
		}
	}
}
