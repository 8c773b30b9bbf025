package e2e

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// mustRegisterFor registers a device of a user for a topic.
func (p *program) mustRegisterFor(user, topic string, n int) {
	p.t.Helper()
	p.must(201, nil, "PUT", fmt.Sprintf("/v1/users/%s/devices/%s", user, deviceToken(n)),
		map[string]string{"platform": "apns", "topic": topic, "environment": "production"})
}

// One failing device, app or shard does not slow down the others. More notifications than a process
// works on at once fail or hang, while others are posted one by one.
func TestOneFailingDoesNotSlowTheOthers(t *testing.T) {
	t.Parallel()
	const failing = 3000
	for name, trouble := range map[string]struct {
		answer apnstest.Answer
		users  int // number of users of the failing notifications
		before int // number of notifications that the app accepted quickly just before
	}{
		"AppAnswers503":    {apnstest.Answer{Status: 503, Reason: "ServiceUnavailable"}, 100, 0},
		"AppHangs":         {apnstest.Answer{Delay: 15 * time.Minute}, 100, 0},
		"FastAppHangs":     {apnstest.Answer{Delay: 15 * time.Minute}, 100, 3000},
		"DeviceAnswers429": {apnstest.Answer{Status: 429, Reason: "TooManyRequests"}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := &arrivals{at: map[string]time.Time{}}
			apns := apnstest.Start(t, apnstest.Options{CountsOnly: true, OnRequest: seen.note})
			p := mustServeMany(t, 1, append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_LOG_LEVEL=error")...)[0]
			for i := range trouble.users {
				p.mustRegisterFor(fmt.Sprintf("user-%d", i), "com.example.broken", 1000+i)
			}
			p.mustRegisterFor("first", "com.example.app", 999)
			p.must(202, nil, "POST", "/v1/events", greeting("first"))
			apns.MustWait(t, 1, 20*time.Second) // the connection is proven, so that it takes many streams
			p.mustPostMany(trouble.before, trouble.users)
			apns.MustWait(t, 1+trouble.before, time.Minute)
			apns.ScriptTopic("com.example.broken", trouble.answer)
			p.mustPostMany(failing, trouble.users)
			if trouble.answer.Delay == 0 { // otherwise the others have to arrive before anything ends
				storetest.Eventually(t, time.Minute, "targeting", func() bool { return p.depthOf("events") == 0 })
			}
			checkOthers(t, p, seen)
		})
	}
}

// checkOthers posts to users of a healthy app, one after the other. Each notification must arrive
// soon, in one of a few rounds: a busy machine may disturb the others.
func checkOthers(t *testing.T, p *program, seen *arrivals) {
	t.Helper()
	const users, rounds = 20, 3
	best := time.Hour
	// This takes milliseconds on a quiet machine, which is far less than the answers of the other
	// app take.
	for round := 0; round < rounds && best > 4*time.Second; round++ {
		worst := time.Duration(0)
		for i := round * users; i < (round+1)*users; i++ {
			seen.expect(deviceToken(i))
			p.mustRegisterFor(fmt.Sprintf("healthy-%d", i), "com.example.app", i)
			posted := time.Now()
			p.must(202, nil, "POST", "/v1/events", greeting(fmt.Sprintf("healthy-%d", i)))
			storetest.Eventually(t, 30*time.Second, "a notification of a healthy app", func() bool { return !seen.of(deviceToken(i)).IsZero() })
			worst = max(worst, seen.of(deviceToken(i)).Sub(posted))
		}
		t.Logf("the slowest of %d took %v", users, worst.Round(time.Millisecond))
		best = min(best, worst)
	}
	if best > 4*time.Second {
		t.Errorf("in each of %d rounds, a notification of a healthy app took %v or longer", rounds, best)
	}
	if deep := p.depthOf("notifications") + p.scheduled("notifications"); deep == 0 {
		t.Error("nothing fails any more: nothing was tested")
	}
}

// expect lets note record the arrival at a device.
func (a *arrivals) expect(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[token] = time.Time{}
}

// scheduled is the number of jobs of a queue that wait for their time.
func (p *program) scheduled(queue string) int64 {
	p.t.Helper()
	n, err := strconv.ParseFloat(p.metric(`fanfare_queue_scheduled{queue="`+queue+`"}`), 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return int64(n)
}

// metric reads the value of one series, "" if there is none.
func (p *program) metric(series string) string {
	p.t.Helper()
	status, text, err := p.try("GET", "/metrics", nil)
	if err != nil || status != 200 {
		p.t.Fatalf("metrics: %d %v", status, err)
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// Q20: the metrics follow what happens, with APNs and with the log sender, and have plausible
// values.
func TestMetricsOfAServer(t *testing.T) {
	t.Parallel()
	for name, vars := range map[string]func(t *testing.T) []string{
		"LogSenderEmbedded": func(*testing.T) []string { return nil },
		"APNsRealRedis": func(t *testing.T) []string {
			return append(apnstest.Start(t, apnstest.Options{}).Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := mustServe(t, t.TempDir(), vars(t)...)
			p.mustRegister(1)
			event := greeting("user-0")
			event["audience"] = map[string]any{"users": []string{"user-0", "nobody"}}
			for range 3 {
				p.must(202, nil, "POST", "/v1/events", event)
			}
			for series, want := range map[string]string{
				"fanfare_events_accepted_total": "3", `fanfare_notifications_targeted_total{platform="apns"}`: "3",
				`fanfare_recipients_suppressed_total{reason="no_device"}`:                        "3",
				`fanfare_apns_answers_total{outcome="delivered",platform="apns",reason=""}`:      "3",
				`fanfare_notifications_ended_total{platform="apns",reason="",state="delivered"}`: "3",
				`fanfare_event_to_answer_seconds_count{platform="apns"}`:                         "3",
				`fanfare_queue_depth{queue="notifications"}`:                                     "0",
				`fanfare_queue_blocked{queue="notifications"}`:                                   "0",
				`fanfare_queue_in_flight{queue="notifications"}`:                                 "0",
				`fanfare_queue_dead_letters{queue="notifications"}`:                              "0",
				`fanfare_queue_leases_recovered_total{queue="notifications"}`:                    "0",
				`fanfare_queue_unserved_shards{queue="notifications"}`:                           "0",
				`fanfare_queue_oldest_age_seconds{queue="notifications"}`:                        "0",
			} {
				storetest.Eventually(t, 20*time.Second, series+" to be "+want, func() bool { return p.metric(series) == want })
			}
			for _, queue := range []string{"events"} { // events with one device need no other queue
				var wakeup string
				storetest.Eventually(t, 20*time.Second, "a wake-up in "+queue, func() bool {
					wakeup = p.metric(`fanfare_queue_wakeup_seconds{queue="` + queue + `"}`)
					return wakeup != "0"
				})
				if took, err := strconv.ParseFloat(wakeup, 64); err != nil || took <= 0 || took > 10 {
					t.Errorf("%s: a wake-up takes %s s", queue, wakeup)
				}
			}
			checkSum(t, p)
			checkMetrics(t, p)
		})
	}
}

// checkMetrics requires metrics that promtool accepts, including those of the pools and of the
// build.
func checkMetrics(t *testing.T, p *program) {
	t.Helper()
	_, text, err := p.try("GET", "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	if err != nil {
		t.Error(err)
	}
	for _, series := range []string{
		`fanfare_pool_connections{pool="redis_requests"} [1-9]`, `fanfare_pool_connections{pool="redis_blocking"} \d`, `fanfare_pool_connections{pool="sql"} [1-9]`,
		`fanfare_pool_max_connections{pool="sql"} [1-9]`, `fanfare_pool_waits_total{pool="sql"} \d`, `fanfare_pool_wait_seconds_total{pool="redis_requests"} \d`,
		`fanfare_pool_timeouts_total{pool="redis_requests"} 0`, `fanfare_contacts_lag_seconds 0`, `fanfare_sale_waiting_orders 0`, `fanfare_sale_oversold_units 0`,
		`fanfare_build_info{goversion="go1\.[^"]+",revision="[^"]*",version="[^"]+"} 1`,
	} {
		if !regexp.MustCompile("(?m)^" + series).Match(text) {
			t.Errorf("no series %s", series)
		}
	}
}

// checkSum checks that the time from event to answer is plausible.
func checkSum(t *testing.T, p *program) {
	t.Helper()
	sum, err := strconv.ParseFloat(p.metric(`fanfare_event_to_answer_seconds_sum{platform="apns"}`), 64)
	if err != nil || sum < 0 || sum > 60 {
		t.Errorf("3 answers took %v s (%v)", sum, err)
	}
	if labels := p.metric("user-0"); labels != "" || strings.Contains(labels, deviceToken(0)) {
		t.Error("a user is a label")
	}
}

// N16: an operator sees which app is paused and why, and has it try, on a process that sends
// nothing itself.
func TestN16_AnOperatorMendsAnApp(t *testing.T) {
	t.Parallel()
	const n = 20
	apns, r := apnstest.Start(t, apnstest.Options{CountsOnly: true}), storetest.Redis(t)
	vars := parkingVars(apns, r.URL(), storetest.MySQL(t))
	front := mustServe(t, t.TempDir(), append(vars, "FANFARE_ROLES=api,jobs")...)
	mustServeMany(t, 2, append(vars, "FANFARE_ROLES=push")...)
	front.mustRegister(n)
	listed := func() api.App {
		var list api.AppList
		front.must(200, &list, "GET", "/v1/apps", nil)
		for _, a := range list.Items {
			if a.App == "com.example.app/production" {
				return a
			}
		}
		return api.App{}
	}
	probe := func(want int, topic string) { front.must(want, nil, "POST", "/v1/apps/"+topic+"/probe", nil) }
	ids := front.mustPause(apns, n)
	storetest.Eventually(t, parkedWithin, "the list has what waits", func() bool {
		a := listed()
		return a.State == api.AppPaused && a.Reason == "InvalidProviderToken" && a.Since != nil && a.Waiting == n
	})
	probe(404, "com.example.nobody")
	apns.ScriptAll()
	probe(202, "com.example.app") // otherwise the next try comes in an hour
	front.mustAllBeDelivered(ids)
	// A process that has never sent to the app does not know it.
	storetest.Eventually(t, parkedWithin, "the app runs, or is not listed", func() bool {
		a := listed()
		return a.State != api.AppPaused && a.State != api.AppResuming && a.Reason == "" && a.Since == nil && a.Waiting == 0
	})
}
