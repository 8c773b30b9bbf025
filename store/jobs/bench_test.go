package jobs

import (
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// BenchmarkLife enqueues, claims and completes jobs, so many a call.
func BenchmarkLife(b *testing.B) {
	for name, n := range map[string]int{"1": 1, "10": 10, "100": 100} {
		b.Run(name, func(b *testing.B) {
			s := begin(b, storetest.Open(b, storetest.Redis(b).URL()))
			q, jobs := named("q"), make([]api.JobRequest, n)
			for i := range jobs {
				jobs[i] = api.JobRequest{Type: "t", Payload: raw(`{"invoice":"2026-01","customer":42}`)}
			}
			b.ReportAllocs()
			for b.Loop() {
				enqueue(b, s, q, jobs...)
				claimed := claim(b, s, q, n, time.Minute)
				results := make([]api.JobResult, len(claimed))
				for i, j := range claimed {
					results[i] = api.JobResult{ID: j.ID, Token: j.Token, Outcome: api.JobComplete}
				}
				if _, err := s.Results(b.Context(), q, results); err != nil || len(claimed) != n {
					b.Fatal(len(claimed), err)
				}
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
