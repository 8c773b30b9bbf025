package redisdb

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// tickEvery is how often the embedded clock moves: expiry is as coarse as that.
const tickEvery = 250 * time.Millisecond

// embedded is a Redis inside this process, on a loopback port with a password that only this
// process has.
type embedded struct {
	server   *miniredis.Miniredis
	password string
	ctx      context.Context // of Open, without its end, for the last commands
}

func startEmbedded(ctx context.Context) (*embedded, error) {
	e := &embedded{server: miniredis.NewMiniRedis(), password: rand.Text(), ctx: ctx}
	e.server.RequireAuth(e.password)
	if err := e.server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *embedded) target() *target {
	return &target{kind: kindSingle, addrs: []string{e.server.Addr()}, password: e.password}
}

// tick moves the clock by the time that has passed, because TTLs of miniredis do not run by
// themselves.
func (e *embedded) tick(ctx context.Context) error {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			now := time.Now()
			e.server.FastForward(now.Sub(last))
			last = now
		}
	}
}

func (e *embedded) close() { e.server.Close() }
