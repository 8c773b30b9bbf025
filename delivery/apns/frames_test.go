package apns

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// The watch sees the same whatever pieces the bytes come in.
func TestFrameWatchSeesSettingsAndGoAway(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	f := http2.NewFramer(&stream, nil)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 9}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 7})
	_ = f.WriteSettingsAck()
	_ = f.WriteData(1, false, bytes.Repeat([]byte{4}, 5000))
	_ = f.WriteSettings()
	_ = f.WritePing(false, [8]byte{7, 7, 7})
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1<<32 - 1})
	_ = f.WriteGoAway(41, http2.ErrCodeNo, bytes.Repeat([]byte("debug"), 200))
	_ = f.WriteGoAway(0, http2.ErrCodeProtocol, nil)
	want := "[settings 7 settings -1 settings 2147483647 goaway 41 goaway 0]"
	for _, size := range []int{1, 2, 8, 9, 10, 100, 4096, stream.Len()} {
		var got []string
		w := &frameWatch{
			settings: func(n int) { got = append(got, fmt.Sprint("settings ", n)) },
			goAway:   func(n uint32) { got = append(got, fmt.Sprint("goaway ", n)) },
		}
		for piece := range slices.Chunk(stream.Bytes(), size) {
			w.feed(piece)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("pieces of %d: got %v", size, got)
		}
	}
}

func TestGateHalvesOncePerRoundAndRecovers(t *testing.T) {
	t.Parallel()
	c := newClock()
	g := newGate(c.now)
	var rounds []int
	for range 100 {
		r, err := g.enter(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		rounds = append(rounds, r)
	}
	for _, r := range rounds {
		g.halve(r)
		g.leave()
	}
	if _, limit := g.state(); limit != 50 {
		t.Fatalf("100 refusals of one round made the limit %d", limit)
	}
	g.succeed()
	if _, limit := g.state(); limit != 50 {
		t.Fatalf("it grew at once to %d", limit)
	}
	seconds := 0
	for _, limit := g.state(); limit > 0; _, limit = g.state() {
		c.add(time.Second)
		g.succeed()
		if seconds++; seconds > 120 {
			t.Fatalf("after two minutes the limit is %d", limit)
		}
	}
	if seconds < 20 {
		t.Fatalf("it recovered in %d s", seconds)
	}
}

func TestGateLetsWaitersIn(t *testing.T) {
	t.Parallel()
	g := newGate(time.Now)
	r, _ := g.enter(context.Background())
	g.halve(r) // limit 1
	done := make(chan error)
	go func() {
		_, err := g.enter(context.Background())
		done <- err
	}()
	mustSoon(t, "one waits", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.waiting == 1
	})
	if _, err := g.enter(context.Background()); err != errSlowed {
		t.Fatalf("the second who would wait: %v", err)
	}
	g.leave()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := g.enter(ctx); err != context.Canceled {
		t.Fatalf("got %v", err)
	}
}
