package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// deadOf lists the dead letters of a queue.
func (p *program) deadOf(queue string) []api.DeadLetter {
	p.t.Helper()
	var list api.DeadLetterList
	p.must(200, &list, "GET", "/v1/dead-letters?kind=job&limit=500&queue="+queue, nil)
	return list.Items
}

// bury lets jobs of a queue fail for good, and returns their ids.
func (p *program) bury(queue string, n int) (ids []string) {
	p.t.Helper()
	for i := range n {
		ids = append(ids, p.enqueue(queue, map[string]any{"type": "t", "unique": fmt.Sprint("u", i), "max_attempts": 1, "payload": i}))
		j := p.claimOne(queue, time.Minute)
		result := map[string]any{"id": j.ID, "token": j.Token, "outcome": "fail", "error": "no such customer"}
		var answers api.JobAnswers
		storetest.Must(p.t, p.ask(&answers, "/v1/queues/"+queue+"/results", map[string]any{"results": []any{result}}))
	}
	return ids
}

// Jobs that are given up at one process are listed, retried and deleted at another one, which is killed meanwhile.
func TestJ9_DeadLettersOfQueues(t *testing.T) {
	t.Parallel()
	first, second := mustServeTwo(t, storetest.Redis(t))
	ids, others := first.bury("q", 3), first.bury("other", 2)
	lost := first.enqueue("q", map[string]any{"type": "killer"})
	for range 8 {
		first.claimOne("q", time.Millisecond)
	}
	storetest.Eventually(t, time.Minute, "the eighth lease is over", func() bool {
		first.claim("q", time.Minute, 1)
		return len(second.deadOf("q")) == 4
	})
	letters := second.deadOf("q")
	if l := letters[0]; !strings.HasSuffix(l.ID, lost) || l.Reason != "lost_leases" || l.Type != "killer" {
		t.Errorf("the job whose leases ended: %+v", l)
	}
	l := letters[1] // the newest comes first
	want := api.DeadLetter{ID: l.ID, Kind: "job", Reason: "max_attempts", Type: "t", Queue: "q", Attempts: 1, LastError: "no such customer", FailedAt: l.FailedAt, Payload: json.RawMessage("2")}
	if !strings.HasSuffix(l.ID, ids[2]) || fmt.Sprintf("%+v", l) != fmt.Sprintf("%+v", want) {
		t.Errorf("%+v, want %+v", l, want)
	}
	if dead := second.mustBeJob(ids[2], api.JobDead); dead.Reason != "max_attempts" || dead.LastError != "no such customer" {
		t.Errorf("the dead job is %+v", dead)
	}

	// The unique name is free. While another job has it, the dead one stays dead.
	heir := second.enqueue("q", map[string]any{"type": "t", "unique": "u2"})
	second.must(409, nil, "POST", "/v1/dead-letters/"+l.ID+"/retry", nil)
	first.say(second.claimOne("q", time.Minute), "complete", api.JobOK)
	second.mustBeJob(heir, api.JobDone)
	second.must(202, nil, "POST", "/v1/dead-letters/"+l.ID+"/retry", nil, "Idempotency-Key", "once")
	second.kill()
	first.must(202, nil, "POST", "/v1/dead-letters/"+l.ID+"/retry", nil, "Idempotency-Key", "once")
	j := first.claimOne("q", time.Minute)
	if j.ID != ids[2] || j.Attempt != 1 || string(j.Payload) != "2" {
		t.Errorf("retried as %+v", j)
	}
	first.say(j, "complete", api.JobOK)

	request := map[string]any{"kind": "job", "queue": "q", "before": letters[0].FailedAt, "expect": 1}
	storetest.Eventually(t, time.Minute, "two were there before the newest", func() bool {
		status, _, err := first.try("POST", "/v1/dead-letters/delete", request)
		return err == nil && status == 409 // 422: that is not over by a clock that was read slowly
	})
	request["expect"] = 2
	var begun api.DeadLettersAccepted
	first.must(202, &begun, "POST", "/v1/dead-letters/delete", request)
	storetest.Eventually(t, time.Minute, "they are deleted", func() bool {
		var o api.Operation
		first.must(200, &o, "GET", "/v1/operations/"+begun.Operation, nil)
		return o.State == api.OperationDone
	})
	if left := first.deadOf("q"); begun.Matched != 2 || len(left) != 1 || left[0].ID != letters[0].ID {
		t.Errorf("%d matched, %+v are left", begun.Matched, left)
	}
	first.mustBeJob(ids[0], api.JobDead) // for an hour, as of each job that has ended
	if left := first.deadOf("other"); len(left) != len(others) || first.queueOf("other").DeadLetters != int64(len(others)) {
		t.Errorf("of another queue %+v are left", left)
	}
}
