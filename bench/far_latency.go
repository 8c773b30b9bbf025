package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"fanfare/delivery/apns/apnstest"
)

const (
	// farPace is how many one-user events a second are posted beside a fan-out.
	farPace = 50
	// otherApp is another app than the fan-out's, otherUsers have a phone with it each,
	// whose tokens begin at otherToken.
	otherApp   = "com.example.other"
	otherUsers = 200
	otherToken = 1 << 26
	// hangsSince is how long the app of the fan-out has hung when the other's events count.
	hangsSince = 2 * time.Second
)

// benchFarLatency measures the way of one-user events from POST to APNs while 100,000
// devices of the same app are sent to, and of another app's while the first one hangs.
func benchFarLatency(ctx context.Context, w *world) (found, error) {
	m, err := w.far().turns(ctx, side{"lone", w.loneEvents})
	const work = "one-user events at 50/s from POST to arrival, p99, "
	return found{rows: []row{
		{work + "while 100,000 devices of their app are sent to at 100 ms", m.of("lone", "same"), "ms", 0, "", valueAtMost(100)},
		{work + "while another app hangs, from its third second on", m.of("lone", "other"), "ms", 0, "", valueAtMost(20)},
	}}, err
}

// loneEvents is one round, with a stage of its own: what an app that hung leaves behind
// is nobody's any more.
func (w *world) loneEvents(ctx context.Context, d time.Duration) (sample, error) {
	fans := w.few(followers)
	s, err := w.stage(ctx, devices, fans)
	defer w.reset()
	defer s.close()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.addOthers(), s.warm(ctx, s.server), s.warmOthers(ctx), s.warmFans(ctx, fans)); err != nil {
		return nil, err
	}
	if err := s.setLatency(ctx, near); err != nil {
		return nil, err
	}
	same, err := s.besideFans(ctx, fans, 3*d, func(n int) ([]byte, string) {
		return s.devices.post(n, 1), token(n % int(s.devices))
	})
	if err != nil {
		return nil, err
	}
	s.apns.ScriptTopic(apnstest.DefaultTopic, apnstest.Failing(apnstest.Hang))
	if err := s.postToFans(ctx); err != nil {
		return nil, err
	}
	select {
	case <-time.After(hangsSince):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	other, err := s.atFarPace(ctx, 3*d, func(n int) ([]byte, string) {
		return batch("other-%d", n, 1, otherUsers), token(otherToken + n%otherUsers)
	})
	return sample{"same": same["p99"], "other": other["p99"]}, err
}

// besideFans posts one-user events while event after event goes to all followers.
func (s *stage) besideFans(ctx context.Context, fans int, d time.Duration, post func(n int) ([]byte, string)) (sample, error) {
	over, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		for {
			if err := s.postToFans(ctx); err != nil {
				ended <- err
				return
			}
			before := s.taken.Load()
			err := eventually(over, time.Hour, "a fan-out", func() (bool, error) { return s.taken.Load()-before >= int64(fans), nil })
			if err != nil {
				ended <- nil
				return
			}
		}
	}()
	got, err := s.atFarPace(ctx, d, post)
	stop()
	return got, errors.Join(err, <-ended)
}

// atFarPace posts events at farPace and waits for the arrival of each.
func (s *stage) atFarPace(ctx context.Context, d time.Duration, post func(n int) ([]byte, string)) (sample, error) {
	pool := &callers{addr: s.server.addr}
	return pacedAt(ctx, farPace, d, func(n int) (time.Duration, error) {
		body, token := post(n)
		return s.postAndAwait(ctx, pool, body, token)
	})
}

// addOthers gives the users of the other app their devices.
func (s *stage) addOthers() error {
	db, err := sql.Open(s.database.driver, s.database.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return insertDevices(db, "other-%d", otherToken, otherUsers, otherApp)
}

// warmOthers sends each of them one event.
func (s *stage) warmOthers(ctx context.Context) error {
	before := s.taken.Load()
	err := each(ctx, s.server.addr, otherUsers, func(c *caller, i int) error {
		return c.call(batch("other-%d", i, 1, otherUsers), 202)
	})
	if err != nil {
		return fmt.Errorf("warm another app: %w", err)
	}
	return s.await(ctx, before+otherUsers)
}

// benchFarMemory sends what a million notifications that wait become when answers take
// 300 ms, by a process that finds them, and looks at its memory.
func benchFarMemory(ctx context.Context, w *world) (found, error) {
	m, err := w.far().turns(ctx, side{"far", w.farMemory})
	return found{rows: []row{
		{"memory of fanfare with 1,000,000 notifications waiting, 300 ms, peak", m.of("far", "peak"), "MiB", 0, "", valueAtMost(128)},
	}}, err
}

func (w *world) farMemory(ctx context.Context, d time.Duration) (sample, error) {
	n := w.few(int(crowd))
	if d < w.seconds { // the round that warms up
		n = max(n/100, 10)
	}
	s, err := w.stage(ctx, population(n), 0, "FANFARE_ROLES=api,targeting,jobs")
	defer w.reset()
	defer s.close()
	if err != nil {
		return nil, err
	}
	if _, err := s.fillBacklog(ctx, s.server, 10*n); err != nil {
		return nil, err
	}
	s.server.kill()
	if err := s.setLatency(ctx, away); err != nil {
		return nil, err
	}
	if s.server, err = w.join(ctx, s); err != nil {
		return nil, err
	}
	for began := time.Now(); time.Since(began) < 10*d && s.taken.Load() < int64(10*n); {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	peak, err := s.server.peak()
	return sample{"peak": peak}, err
}
