package devices

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"fanfare/api"
	"fanfare/store/record"
)

// StateGone is the state in the guard of a token that is no device any more.
const StateGone api.DeviceState = "gone"

// Guard says who a token belongs to now. It lies beside the token's notifications
// (queue.Queue.SetGuard in the shard Route(token), under GuardName), so that a claim sees it
// without another round trip. It is written after every registration, removal and change of
// state, and outlives the work that was queued before: no guard means that nothing has changed
// for that long. A retried dead letter may be older, and uses Store.GuardOf.
type Guard struct {
	User         string
	RegisteredAt api.Time
	Topic        string
	Environment  api.Environment
	State        api.DeviceState // StateGone when the token was removed
}

// GuardName names the guard of a token. It is short because every waiting notification carries
// the name of its guard. 96 bits of SHA-256 are enough that two tokens do not share a name.
func GuardName(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// Reaches tells whether a notification for this user may still be sent: the
// token is the user's and was not dropped.
func (g Guard) Reaches(user string) bool {
	return g.User == user && g.State != api.DeviceDropped && g.State != StateGone
}

// EncodeGuard writes a guard as one line: state|registered_at|environment|topic|user.
// None of them can hold a bar.
func EncodeGuard(g Guard) string {
	var at int64
	if !g.RegisteredAt.IsZero() {
		at = g.RegisteredAt.UnixMilli()
	}
	return strings.Join([]string{string(g.State), strconv.FormatInt(at, 10), string(g.Environment), g.Topic, g.User}, "|")
}

// ParseGuard reads what EncodeGuard wrote; false for anything else, also for "".
func ParseGuard(s string) (Guard, bool) {
	part := strings.Split(s, "|")
	if len(part) != 5 {
		return Guard{}, false
	}
	at, err := strconv.ParseInt(part[1], 10, 64)
	if err != nil {
		return Guard{}, false
	}
	return Guard{State: api.DeviceState(part[0]), RegisteredAt: api.AtMillis(at),
		Environment: api.Environment(part[2]), Topic: part[3], User: part[4]}, true
}

// GuardOf says who a token of this user belongs to now, as the user's settings in the cache or
// else on record have it. The state is gone if the token is not sent to or is not this user's.
// Without Redis and SQL it returns an error.
func (s *Store) GuardOf(ctx context.Context, user, token string) (Guard, error) {
	targets, err := s.Targets(ctx, []Query{{User: user}})
	if err != nil {
		return Guard{}, fmt.Errorf("look up the owner of a device: %w", err)
	}
	for _, d := range targets[0].Devices {
		if d.Token == token {
			return Guard{User: user, RegisteredAt: d.RegisteredAt, Topic: d.Topic, Environment: d.Environment, State: d.State}, nil
		}
	}
	return Guard{State: StateGone}, nil
}

// guardOf makes the guard of a device on record, StateGone if there is none.
func guardOf(d record.OwnedDevice, known bool) string {
	if !known {
		return EncodeGuard(Guard{State: StateGone})
	}
	return EncodeGuard(Guard{User: d.User, RegisteredAt: d.RegisteredAt, Topic: d.Topic, Environment: d.Environment, State: d.State})
}
