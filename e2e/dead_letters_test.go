package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// mustBury gives up jobs of the queue "events" and waits until they are dead letters.
func mustBury(t testing.TB, redis string, n int64) {
	t.Helper()
	q := queue.New(storetest.Open(t, redis), queue.Options{Name: "events"})
	storetest.Must(t, q.Init(t.Context()))
	for made := int64(0); made < n; made += 1000 {
		jobs := make([]queue.Job, min(1000, n-made))
		for i := range jobs {
			jobs[i] = queue.Job{Payload: []byte("no event")}
		}
		_, err := q.Enqueue(t.Context(), jobs...)
		storetest.Must(t, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = q.Run(ctx, queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			return queue.Result{Outcome: queue.Dead, Reason: "Buried"}
		}))
	})
	defer wg.Wait()
	defer cancel()
	storetest.Eventually(t, 3*time.Minute, "all are dead", func() bool {
		s, err := q.Stats(t.Context())
		return err == nil && s.DeadLetters == n
	})
}

// N15: the process that deletes many dead letters is killed in the middle, and another one goes on.
func TestN15_TheProcessIsKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	n := int64(storetest.Sized(20_000, 4000))
	redis := storetest.Redis(t).URL()
	vars := []string{"FANFARE_REDIS_URL=" + redis, "FANFARE_DATABASE_URL=" + storetest.MySQL(t), "FANFARE_JOB_LEASE=2s"}
	front := mustServe(t, t.TempDir(), append(vars, "FANFARE_ROLES=api")...)
	for round := 1; !killedInTheMiddle(t, redis, front, append(vars, "FANFARE_ROLES=jobs"), n); round++ {
		if round == 5 {
			t.Fatal("each time it was done before the kill")
		}
	}
}

// killedInTheMiddle lets processes delete n dead letters and kills each when it has done a third. It reports whether
// there was more than one.
func killedInTheMiddle(t *testing.T, redis string, front *program, worker []string, n int64) bool {
	t.Helper()
	mustBury(t, redis, n)
	before := time.Now().Add(time.Millisecond)
	storetest.Eventually(t, time.Minute, "that is long ago, also by a clock that was read slowly", func() bool { return time.Since(before) > time.Second })
	request := map[string]any{"reason": "Buried", "expect": n, "before": before.UTC().Format(time.RFC3339Nano)}
	var begun api.DeadLettersAccepted
	front.must(202, &begun, "POST", "/v1/dead-letters/delete", request)
	var o api.Operation
	shown := func() api.Operation {
		o = api.Operation{}
		front.must(200, &o, "GET", "/v1/operations/"+begun.Operation, nil)
		return o
	}
	if shown(); begun.Matched != n || o.State != api.OperationRunning || *o.Matched != n || *o.Left != n {
		t.Fatalf("%+v", begun)
	}
	workers := 0
	for o.State != api.OperationDone {
		left := *o.Left
		worker := mustServe(t, t.TempDir(), worker...)
		storetest.Eventually(t, 3*time.Minute, "it goes on", func() bool { shown(); return o.State == api.OperationDone || *o.Left < left-n/3 })
		worker.kill()
		workers++
	}
	var groups api.DeadLetterGroups
	front.must(200, &groups, "GET", "/v1/dead-letters/groups", nil)
	if *o.Left != 0 || *o.Matched != n || len(groups.Items) != 0 {
		t.Errorf("%d left, %+v", *o.Left, groups)
	}
	return workers > 1
}
