package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// settled reports whether no event and no notification is left to work on.
func (p *program) settled() bool {
	var stats struct {
		Queues []struct {
			Name                              string
			Depth, Blocked, Scheduled, Parked int
			InFlight                          int `json:"in_flight"`
		}
	}
	p.must(200, &stats, "GET", "/v1/stats", nil)
	for _, q := range stats.Queues {
		if q.Name != "jobs" && q.Depth+q.Blocked+q.Scheduled+q.Parked+q.InFlight > 0 {
			return false
		}
	}
	return len(stats.Queues) > 0
}

// cancelReport is what the test looks at in an event's report.
type cancelReport struct {
	State                                                                      string
	Recipients, Notifications, Delivered, Failed, Expired, Cancelled, Retrying int
}

// cancelled is an event of the test, and how its cancel was answered.
type cancelled struct {
	id       string
	round    int
	users    int
	due      time.Time // zero: at once
	status   int
	answered time.Time
}

// post posts the event.
func (e *cancelled) post(p *program, event map[string]any) {
	var a struct{ ID string }
	p.must(202, &a, "POST", "/v1/events", event)
	e.id = a.ID
}

// cancel cancels the event by one server after the other, until it is answered.
func (e *cancelled) cancel(f *fleet) error {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		for _, p := range f.all() {
			status, answer, err := p.try(http.MethodPost, "/v1/events/"+e.id+"/cancel", nil)
			if err == nil && (status == 200 || status == 409) {
				e.status, e.answered = status, time.Now()
				return nil
			}
			if err == nil && status < 500 || time.Now().After(deadline) {
				return fmt.Errorf("cancel: %d %s, %w", status, answer, err)
			}
		}
		<-time.After(20 * time.Millisecond)
	}
}

// report is the event's report so far.
func (e *cancelled) report(p *program) (r cancelReport) {
	p.must(200, &r, "GET", "/v1/events/"+e.id, nil)
	return r
}

// N11: while servers are killed, events are cancelled: some are sent with the event, some as parts, some are about to be
// due, and in each round one is waiting for its next try, so that it is cancelled in the middle. Nothing of them is
// sent later, and in the end each notification has ended once.
func TestN11_CancelsAmongKills(t *testing.T) {
	t.Parallel()
	const rounds, people = 3, 150
	apns, redis := apnstest.Start(t, apnstest.Options{}), storetest.Redis(t)
	apns.SetLatency(300*time.Millisecond, 0)
	vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_MAX_IN_FLIGHT=50")...)
	f := &fleet{t: t, vars: vars, redis: redis, servers: mustServeMany(t, 2, vars...)}
	f.servers[0].mustRegister(people)
	f.servers[0].mustRegisterFor("busy", apnstest.DefaultTopic, people)
	apns.Script(deviceToken(people), apnstest.Fail(http.StatusTooManyRequests, "TooManyRequests"))
	var all []*cancelled
	for round := range rounds {
		waiting := &cancelled{round: round, users: 1}
		waiting.post(f.all()[round%2], greeting("busy"))
		storetest.Eventually(t, time.Minute, "a try has failed", func() bool { return waiting.report(f.all()[0]).Retrying == 1 })
		var these []*cancelled
		for i, users := range []int{people, people, 40, 1, 20, 20} {
			e, event := &cancelled{round: round, users: users}, greeting(userNames(users)...)
			if i > 3 {
				e.due = time.Now().Add(time.Duration(i-3) * 2 * time.Second).Truncate(time.Millisecond)
				event["send_at"] = e.due.UTC().Format("2006-01-02T15:04:05.000Z")
			}
			e.post(f.all()[i%2], event)
			these = append(these, e)
		}
		these = append(these, waiting)
		storetest.Must(t, apns.WaitTotal(apns.Total()+10, time.Minute))
		var wg sync.WaitGroup
		for i, e := range these {
			wg.Go(func() {
				<-time.After(time.Duration(i+round) * 50 * time.Millisecond)
				if err := e.cancel(f); err != nil {
					t.Error(err)
				}
			})
		}
		f.kill()
		wg.Wait()
		all = append(all, these...)
	}
	storetest.Eventually(t, 2*time.Minute, "nothing is left", f.all()[0].settled)
	sent := map[string][]apnstest.Request{}
	for _, r := range apns.Requests() {
		id := eventOf(t, r)
		sent[id] = append(sent[id], r)
	}
	sum, inTheMiddle := map[string]int{}, make([]int, rounds)
	for _, e := range all {
		r := e.report(f.all()[1])
		sum[r.State]++
		sum["delivered"] += r.Delivered
		sum["not sent"] += r.Cancelled
		if r.State == "cancelled" {
			inTheMiddle[e.round] += r.Cancelled
		}
		if want := map[int]string{200: "cancelled", 409: "done"}[e.status]; r.State != want || r.Failed+r.Expired > 0 ||
			r.Delivered+r.Cancelled != r.Notifications || r.Notifications > e.users || r.Delivered > len(sent[e.id]) {
			t.Errorf("the cancel was answered with %d, in the end %+v; %d requests", e.status, r, len(sent[e.id]))
		}
		if early := e.due.Sub(e.answered); early > time.Second && (r.Notifications > 0 || len(sent[e.id]) > 0) {
			t.Errorf("cancelled %v before it was due: %+v, %d requests", early, r, len(sent[e.id]))
		}
		late := slices.DeleteFunc(sent[e.id], func(q apnstest.Request) bool { return q.At.Sub(e.answered) < 11*time.Second }) // 10 s for a slow machine
		if e.status == 200 && len(late) > 0 {
			t.Errorf("%d requests came %v after the cancel", len(late), late[0].At.Sub(e.answered))
		}
	}
	t.Logf("%d events: %v, notifications cancelled in each round: %v", len(all), sum, inTheMiddle)
	if slices.Contains(inTheMiddle, 0) {
		t.Error("not every round had something that was cancelled in the middle")
	}
}

// userNames are the names of the first n users.
func userNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("user-", i)
	}
	return names
}
