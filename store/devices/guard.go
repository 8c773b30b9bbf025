package devices

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fanfare/api"
	"fanfare/store/record"
)

// StateGone is the state in the guard of a token that is no longer a device.
const StateGone api.DeviceState = "gone"

// Guard says to whom a token belongs now. It is stored in the slot of the token's notifications
// (queue.Queue.SetGuards in the shard Route(token), under GuardName), so that a claim reads it
// without another round trip. It is written after every registration, removal and change of state,
// and is kept longer than any work that was queued before. So if there is no guard, nothing has
// changed for that time. A retried dead letter may be older, and uses Store.GuardOf.
type Guard struct {
	User         string
	RegisteredAt api.Time
	Topic        string
	Environment  api.Environment
	State        api.DeviceState // StateGone when the token was removed
	Target       string          // as in api.Device
}

// GuardName names the guard of a token. It is short because every waiting notification carries
// the name of its guard.
func GuardName(token string) string { return api.TokenDigest(token) }

// Reaches reports whether a notification for this user may still be sent: the token belongs to the
// user and was not dropped.
func (g Guard) Reaches(user string) bool {
	return g.User == user && g.State != api.DeviceDropped && g.State != StateGone
}

// EncodeGuard writes a guard as one line: state|registered_at|environment|topic|user|target. None of these
// can contain a bar.
func EncodeGuard(g Guard) string {
	var at int64
	if !g.RegisteredAt.IsZero() {
		at = g.RegisteredAt.UnixMilli()
	}
	return strings.Join([]string{string(g.State), strconv.FormatInt(at, 10), string(g.Environment), g.Topic, g.User, g.Target}, "|")
}

// ParseGuard reads the form of EncodeGuard. It returns false for any other text, including "".
func ParseGuard(s string) (Guard, bool) {
	part := strings.Split(s, "|")
	if len(part) != 6 {
		return Guard{}, false
	}
	at, err := strconv.ParseInt(part[1], 10, 64)
	g := Guard{State: api.DeviceState(part[0]), RegisteredAt: api.AtMillis(at),
		Environment: api.Environment(part[2]), Topic: part[3], User: part[4], Target: part[5]}
	_, isTarget := api.ParseTarget(g.Target)
	_, _, isLive := api.LiveTarget(g.Target)
	return g, err == nil && (g.Target == "" || (isTarget || isLive) && g.Environment == "")
}

// GuardOf says to whom a token of this user belongs now, from the user's settings in the cache or
// else on record. The state is StateGone if the device gets no notifications or does not belong to
// this user. Without Redis and SQL it returns an error.
func (s *Store) GuardOf(ctx context.Context, user, token string) (Guard, error) {
	targets, err := s.Targets(ctx, []Query{{User: user}})
	if err != nil {
		return Guard{}, fmt.Errorf("look up the owner of a device: %w", err)
	}
	for _, d := range slices.Concat(targets[0].Devices, targets[0].Activities) {
		if d.Token == token {
			return guardFor(user, &d), nil
		}
	}
	return Guard{State: StateGone}, nil
}

// guardOf makes the guard of a device on record, StateGone if there is none. No two guards of removed tokens are the
// same, so that a late command cannot take one for another (queue.Queue.SetGuards).
func guardOf(d record.OwnedDevice, known bool) string {
	if !known {
		return EncodeGuard(Guard{State: StateGone, Topic: rand.Text()})
	}
	return EncodeGuard(guardFor(d.User, &d.Device))
}

func guardFor(user string, d *api.Device) Guard {
	return Guard{User: user, RegisteredAt: d.RegisteredAt, Topic: d.Topic, Environment: d.Environment, State: d.State, Target: d.Target}
}
