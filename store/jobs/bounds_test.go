package jobs

import (
	"fmt"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// J7: claims that share a script have one bound of bytes, and one run sees to some of what is due, also if all is due at once.
func TestJ7_BoundsOfARun(t *testing.T) {
	t.Parallel()
	s := begin(t, storetest.Open(t, storetest.Redis(t).URL()))
	q, large := named("q"), raw(fmt.Sprintf(`"%0*d"`, api.MaxJobPayload-2, 0))
	for range 10 {
		enqueue(t, s, q, slicesOf(20, api.JobRequest{Payload: large})...)
	}
	calls := make([]*call, 100)
	for i := range calls {
		n := int64(4)
		calls[i] = newClaim(q, &api.JobClaim{Worker: "w", Max: &n}, api.Idempotency{})
	}
	s.run(t.Context(), s.groupOf(q), series{"test", 1, keepRun}, calls)
	bytes, later := 0, 0
	for _, c := range calls {
		storetest.Must(t, c.err)
		claimed, err := c.claimed(q)
		storetest.Must(t, err)
		for _, j := range claimed.Jobs {
			bytes += len(j.Payload)
		}
		if c.status == noBytes {
			later++
		}
	}
	if bytes > api.MaxClaimBytes+4*api.MaxJobPayload || later == 0 {
		t.Errorf("one run gave out %d bytes, and %d claims wait for the next", bytes, later)
	}
	q = named("q")
	fill(t, s, q, "other", 3000, func(r *api.JobRequest) { at := api.At(time.Now().Add(300 * time.Millisecond)); r.RunAt = &at })
	mine := api.At(time.Now().Add(310 * time.Millisecond))
	id := enqueue(t, s, q, api.JobRequest{Type: "mine", RunAt: &mine})[0]
	until(t, mine.Add(20*time.Millisecond), "all are due, and nobody claims meanwhile")
	if jobs := claim(t, s, q, 1, time.Minute, "mine"); len(jobs) != 1 || jobs[0].ID != id {
		t.Errorf("behind 3,000 jobs that are due: %v", jobs)
	}
}

// J7: repeats under Idempotency-Keys have the same bound of bytes, and queues together one of due jobs.
func TestJ7_BoundsOfRepeatsAndQueues(t *testing.T) {
	t.Parallel()
	s := known(t, begin(t, storetest.Open(t, storetest.Redis(t).URL())))
	q, large, four := named("q"), raw(fmt.Sprintf(`"%0*d"`, api.MaxJobPayload-2, 0)), int64(4)
	var calls []*call
	for i := range 30 {
		enqueue(t, s, q, slicesOf(4, api.JobRequest{Payload: large})...)
		once := api.Idempotency{Scope: "claims", Key: fmt.Sprint(i)}
		_, _, err := s.Claim(t.Context(), nil, q, &api.JobClaim{Worker: "w", Max: &four}, once)
		storetest.Must(t, err)
		calls = append(calls, newClaim(q, &api.JobClaim{Worker: "w", Max: &four}, once))
	}
	s.run(t.Context(), s.groupOf(q), series{"test", 1, keepRun}, calls)
	repeated := 0
	for _, c := range calls {
		storetest.Must(t, c.err)
		if c.status == replayed {
			repeated++
		}
	}
	if repeated == 0 || repeated > 6 {
		t.Errorf("one run repeated %d answers of 240 KiB", repeated)
	}
	calls = nil
	for n := 0; len(calls) < 4; n++ { // queues of one group
		other := fmt.Sprint("due", n)
		if s.groupOf(other) != s.groupOf(q) {
			continue
		}
		at := api.At(time.Now().Add(200 * time.Millisecond))
		fill(t, s, other, "t", 200, func(r *api.JobRequest) { r.RunAt = &at })
		calls = append(calls, newClaim(other, &api.JobClaim{Worker: "w"}, api.Idempotency{}))
	}
	until(t, time.Now().Add(300*time.Millisecond), "all are due")
	s.run(t.Context(), s.groupOf(q), series{"due", 1, keepRun}, calls)
	settled := int64(0)
	for n := 0; n < 4; n++ {
		name := calls[n].args[0].(string)
		due, err := s.db.Client().ZCard(t.Context(), s.letters.KeyBeside(s.groupOf(name), "w:"+name+"/due")).Result()
		storetest.Must(t, err)
		settled += 200 - due + int64(len(calls[n].jobs)/4) // a job that was claimed is due at its lease's end
	}
	if settled < 300 || settled > 303 {
		t.Errorf("one run saw to %d due jobs", settled)
	}
}
