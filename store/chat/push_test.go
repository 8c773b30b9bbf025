package chat

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// namesInBucket finds n names of chats that share a bucket.
func (w *world) namesInBucket(n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		if name := fmt.Sprint("c", i); bucketOf(w.id(name)) == 7 {
			names = append(names, name)
		}
	}
	return names
}

// C14: chats whose pushes cannot be made, because the master of their events is away, hide no others from the sweep,
// however many they are.
func TestC14_StuckPushesHideNoOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{})
	names := w.namesInBucket(pushChats + 1)
	last := names[pushChats]
	for _, name := range names {
		w.mustCreate(name, "alice", "bob")
		w.mustPush(name, "alice", "hello")
	}
	var made atomic.Int64
	p := NewPusher(w.Store, PusherOptions{SweepEvery: 50 * time.Millisecond, SweepAge: time.Millisecond,
		Post: func(_ context.Context, events ...api.NamedEvent) ([]error, error) {
			if events[0].Route != w.id(last) {
				return nil, errors.New("its master is away")
			}
			made.Add(1)
			return make([]error, len(events)), nil
		}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Sweep(ctx) }()
	storetest.Eventually(t, testPatience, "the push that can be made", func() bool { return made.Load() > 0 })
	cancel()
	storetest.Must(t, <-done)
	b := w.mustBatch(names[0], 10, "1:hello") // it stays due
	storetest.Must(t, w.PushDone(t.Context(), w.id(names[0]), b.Epoch, b.UpTo))
}
