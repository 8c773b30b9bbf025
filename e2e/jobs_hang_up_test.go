package e2e

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// number reads a metric without labels.
func (p *program) number(name string) float64 {
	p.t.Helper()
	n, err := strconv.ParseFloat(p.metric(name), 64)
	storetest.Must(p.t, err)
	return n
}

// Thousands of workers wait on connections of their own, and all hang up at once while jobs come. They hold nothing, the
// jobs go to a worker that comes then, and nothing stays in the process.
func TestJ5_ThousandsHangUp(t *testing.T) {
	t.Parallel()
	n := storetest.Sized(8000, 4000)
	p := mustServeMany(t, 1, jobSettings(t, storetest.Redis(t))...)[0]
	body := `{"worker":"w","lease_ms":3600000,"wait_ms":30000}`
	host := strings.TrimPrefix(p.base, "http://")
	request := fmt.Sprintf("POST /v1/queues/q/claims HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, len(body), body)
	wave := func() {
		var mu sync.Mutex
		var open []net.Conn
		p.each(n, func(int) error {
			conn, err := net.Dial("tcp", host)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			open = append(open, conn)
			_, err = conn.Write([]byte(request))
			return err
		})
		storetest.Eventually(t, 20*time.Second, "all wait", func() bool { return p.number("fanfare_open_streams") == float64(n) })
		for _, conn := range open {
			_ = conn.Close()
		}
		ids := map[string]bool{}
		for range 3 {
			ids[p.enqueue("q", map[string]any{"type": "t"})] = true
		}
		begun := time.Now()
		for range 3 {
			// One that hung up may just have been given the job, and gives it back uncounted.
			jobs, err := p.tryClaim("q", time.Hour, map[string]any{"max": 1, "wait_ms": 20_000})
			if err != nil || len(jobs) != 1 || !ids[jobs[0].ID] || jobs[0].Attempt != 1 {
				t.Fatalf("claimed %+v, %v", jobs, err)
			}
			p.say(jobs[0], "complete", api.JobOK)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("jobs waited for %v while %d workers left", took, n)
		}
		storetest.Eventually(t, time.Minute, "all have left", func() bool { return p.number("fanfare_open_streams") == 0 })
		if q := p.queueOf("q"); q.Running+q.Depth+q.Recovered != 0 {
			t.Errorf("the queue is %+v", q)
		}
	}
	p.claim("q", time.Minute, 1)
	before := p.number("go_goroutines")
	wave()
	wave()
	peak := p.peakMemory()
	wave()
	wave()
	storetest.Eventually(t, time.Minute, "their goroutines have ended", func() bool { return p.number("go_goroutines") < before+100 })
	t.Logf("%d workers left four times; at most %d MB after the second time, %d after the last", n, peak>>20, p.peakMemory()>>20)
	if again := p.peakMemory(); again > peak*3/2 { // what the first ones left is used again
		t.Errorf("the process took %d MB until the second time, and %d until the last", peak>>20, again>>20)
	}
}
