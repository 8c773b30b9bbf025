package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/chat/live"
	"fanfare/store/storetest"
)

// shifted is the program with a clock that is wrong by CLOCK_SHIFT_SECONDS: always or, with
// CLOCK_JUMPS_EVERY_MS, in every other interval of that length. time.Now is wrong, and differences
// of monotonic time are right.
var shifted binary

// The place in Go's package time that reads the clock, and the code that is inserted after it.
const (
	timeAsked = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	timeShift = "\tsec += clockShift(mono)\n"
	timeMore  = `
func clockShift(mono int64) int64 {
	c := clockOfTests()
	if c[1] > 0 && mono/1e6/c[1]%2 == 0 {
		return 0
	}
	return c[0]
}

var clockOfTests = sync.OnceValue(func() (c [2]int64) {
	for i, name := range []string{"CLOCK_SHIFT_SECONDS", "CLOCK_JUMPS_EVERY_MS"} {
		text, _ := syscall.Getenv(name)
		sign := int64(1)
		for _, digit := range text {
			if digit == '-' {
				sign = -1
			} else {
				c[i] = 10*c[i] + sign*int64(digit-'0')
			}
		}
	}
	return c
})
`
)

// mustBuildShifted returns the path of the program, built with a changed package time.
func mustBuildShifted(t testing.TB) string {
	t.Helper()
	storetest.SkipShort(t, "the whole program, with all that it needs")
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	storetest.Must(t, err)
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	storetest.Must(t, err)
	changed := strings.Replace(string(text), timeAsked, timeAsked+timeShift, 1)
	changed = strings.Replace(changed, "import (\n", "import (\n\t\"sync\"\n\t\"syscall\"\n", 1)
	if strings.Count(changed, timeShift) != 1 || strings.Count(changed, "\"syscall\"\n") != 1 {
		t.Fatalf("%s is not as this test knows it", original)
	}
	dir := t.TempDir()
	replaced, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	storetest.Must(t, os.WriteFile(replaced, []byte(changed+timeMore), 0o600))
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{original: replaced}})
	storetest.Must(t, err)
	storetest.Must(t, os.WriteFile(overlay, list, 0o600))
	return shifted.must(t, storetest.Root, []string{"CGO_ENABLED=0"}, "-overlay="+overlay)
}

// shiftVars set a clock that is wrong, with jumps only at times.
func shiftVars(shift, jumps time.Duration) []string {
	return []string{"CLOCK_SHIFT_SECONDS=" + strconv.Itoa(int(shift.Seconds())), "CLOCK_JUMPS_EVERY_MS=" + strconv.Itoa(int(jumps.Milliseconds()))}
}

// mustServeShifted starts a server whose clock is wrong. With jumps it is wrong only at times.
func mustServeShifted(t testing.TB, shift, jumps time.Duration, vars ...string) *program {
	t.Helper()
	p := launchServerPath(t, mustBuildShifted(t), t.TempDir(), slices.Concat(vars, shiftVars(shift, jumps))...)
	p.awaitReady()
	return p
}

// Redis' clock decides about leases, times to live, windows, holds and presence. A server whose
// clock is two minutes slow or fast, or jumps by two minutes and back, does all of this correctly,
// together with a server whose clock is right. Only provider tokens follow the clock of the server
// that sends.
func TestClocksThatAreWrong(t *testing.T) {
	t.Parallel()
	skipFaults(t)
	apns, redis := apnstest.Start(t, apnstest.Options{}), storetest.Redis(t)
	vars := []string{"FANFARE_REDIS_URL=" + redis.URL(), "FANFARE_DATABASE_URL=" + storetest.MySQL(t), "FANFARE_NOTIFICATION_LEASE=5s", "FANFARE_JOB_LEASE=5s", "FANFARE_WEBHOOK_NETS=127.0.0.0/8"}
	keys, file := mustBackendKey(t, "backend"), filepath.Join(t.TempDir(), "keys.json")
	mustPublish(t, file, keys)
	// checkTokens asks about a user's tokens again and again, without a pause.
	vars = append(vars, "FANFARE_USER_KEYS_FILE="+file, "FANFARE_USER_RATE_LIMIT=off")
	right := mustServe(t, t.TempDir(), append(vars, apns.Env()...)...)
	clocks := []struct {
		name         string
		shift, jumps time.Duration
	}{{"Slow", -2 * time.Minute, 0}, {"Fast", 2 * time.Minute, 0}, {"JumpsAhead", 2 * time.Minute, 1500 * time.Millisecond}, {"JumpsBack", -2 * time.Minute, 1500 * time.Millisecond}}
	right.mustRegister(len(clocks))
	ttl := map[string]any{"title": "x", "ttl_seconds": 60}
	right.must(201, nil, "PUT", "/v1/event-types/brief", ttl)
	right.must(201, nil, "POST", "/v1/chats", map[string]any{"id": "team", "creator": "ann", "members": []string{"ann", "user-0"}})
	db := storetest.Open(t, redis.URL())
	// A wrong clock makes provider tokens that APNs refuses, so these servers send with a certificate.
	apps := filepath.Join(t.TempDir(), "apps.json")
	list, err := json.Marshal(map[string]any{"apps": []any{map[string]any{"topic": "com.example.app", "environment": "production", "url": apns.URL(), "cert_file": apns.CertFile()}}})
	storetest.Must(t, err)
	storetest.Must(t, os.WriteFile(apps, list, 0o600))
	vars = append(vars, "FANFARE_APPS_FILE="+apps, "FANFARE_APNS_CA_FILE="+apns.CAFile())
	for n, clock := range clocks {
		t.Run(clock.name, func(t *testing.T) {
			t.Parallel()
			p := mustServeShifted(t, clock.shift, clock.jumps, vars...)
			p.checkClock(t, clock.shift)
			if clock.jumps > 0 {
				p.checkClock(t, 0)
			}
			t.Run("Events", func(t *testing.T) { checkLifetimes(t, p, apns, n) })
			t.Run("Sale", func(t *testing.T) { checkWindows(t, p, clock.name) })
			t.Run("Hold", func(t *testing.T) { checkHold(t, p, "hold-"+clock.name) })
			t.Run("Presence", func(t *testing.T) {
				user := "user-" + clock.name
				p.mustFollow(user, "")
				left := db.Client().PTTL(t.Context(), live.PresenceKey(user)).Val()
				if left <= 15*time.Second || left > 30*time.Second {
					t.Errorf("present for %v", left)
				}
			})
			t.Run("Token", func(t *testing.T) { checkTokens(t, p, right, keys) })
			t.Run("Webhook", func(t *testing.T) { checkTimestamps(t, p, "shop-"+clock.name, 2*clock.jumps) })
			t.Run("Lease", func(t *testing.T) {
				p.kill() // within its lease: another process takes its work over
				right.checkDelivery(t, apns, n)
			})
		})
	}
}

// checkClock makes sure that the clock is wrong by the given amount, at least at times.
func (p *program) checkClock(t *testing.T, shift time.Duration) {
	t.Helper()
	storetest.Eventually(t, 20*time.Second, "operators are told", func() bool {
		ahead, err := strconv.ParseFloat(p.metric(`fanfare_redis_clock_ahead_seconds{redis="redis"}`), 64)
		return err == nil && (time.Duration(ahead*float64(time.Second))-shift).Abs() < 20*time.Second
	})
	storetest.Eventually(t, 20*time.Second, "answers to be dated as wrongly", func() bool {
		resp, err := http.Get(p.base + "/healthz")
		storetest.Must(t, err)
		_ = resp.Body.Close()
		at, err := http.ParseTime(resp.Header.Get("Date"))
		return err == nil && (time.Until(at)-shift).Abs() < 20*time.Second
	})
}

// checkDelivery posts an event to the user of this number and waits until APNs has it.
func (p *program) checkDelivery(t *testing.T, apns *apnstest.Server, user int) apnstest.Request {
	t.Helper()
	return p.checkPush(t, apns, user, map[string]any{"type": "brief", "audience": map[string]any{"users": []string{fmt.Sprint("user-", user)}}})
}

// checkPush posts an event to the user of this number, to whom nobody else posts meanwhile, and waits until APNs has it.
func (p *program) checkPush(t *testing.T, apns *apnstest.Server, user int, event map[string]any) apnstest.Request {
	t.Helper()
	before := len(apns.Of(deviceToken(user)))
	p.must(202, nil, "POST", "/v1/events", event)
	storetest.Eventually(t, 30*time.Second, "APNs has it", func() bool { return len(apns.Of(deviceToken(user))) > before })
	return apns.Of(deviceToken(user))[before]
}

func checkLifetimes(t *testing.T, p *program, apns *apnstest.Server, user int) {
	t.Helper()
	wantEnd := func(r apnstest.Request, began time.Time) {
		t.Helper()
		at, err := strconv.ParseInt(r.Expiration, 10, 64)
		if end := time.Unix(at, 0); err != nil || end.Before(began.Add(58*time.Second)) || end.After(time.Now().Add(62*time.Second)) {
			t.Errorf("APNs was told %v, %v: not a minute after %v", end, err, began)
		}
	}
	began := time.Now()
	wantEnd(p.checkDelivery(t, apns, user), began)
	event := greeting(fmt.Sprint("user-", user))
	event["expires_at"] = time.Now().Add(time.Minute)
	began = time.Now()
	wantEnd(p.checkPush(t, apns, user, event), began)
	event["expires_at"] = time.Now().Add(-time.Minute)
	p.must(422, nil, "POST", "/v1/events", event)
}

// checkTokens makes sure that a token is valid at once and until its end, whichever server made it
// and whichever checks it. It takes long enough for a clock to jump.
func checkTokens(t *testing.T, p, right *program, keys backendKey) {
	t.Helper()
	ours := keys.mustToken(t, "bob")
	for i, maker := range []*program{p, right} {
		const lasts = 4 * time.Second
		var made api.Token
		began := time.Now()
		maker.must(201, &made, "POST", "/v1/users/bob/tokens", map[string]any{"scopes": []string{"chat"}, "ttl_seconds": int(lasts.Seconds())})
		for time.Since(began) < lasts-1500*time.Millisecond {
			for _, token := range []string{"Bearer " + made.Token, ours} {
				if one, two := p.status(token), right.status(token); one != 200 || two != 200 {
					t.Fatalf("maker %d, after %v: %d where the clock is wrong, %d where it is right", i, time.Since(began), one, two)
				}
			}
		}
		storetest.Eventually(t, 10*time.Second, "the token to end", func() bool { return p.status("Bearer "+made.Token) == 401 && right.status("Bearer "+made.Token) == 401 })
		if took := time.Since(began); took < lasts-1500*time.Millisecond || took > lasts+1500*time.Millisecond {
			t.Errorf("it ended after %v, not %v", took, lasts)
		}
	}
}

// checkTimestamps makes sure that requests to a webhook are dated by Redis' clock (H7), again and again for some time.
func checkTimestamps(t *testing.T, p *program, id string, lasts time.Duration) {
	t.Helper()
	dated := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { dated <- r.Header.Get("webhook-timestamp") }))
	t.Cleanup(receiver.Close)
	p.must(201, nil, "PUT", "/v1/webhooks/"+id, map[string]any{"url": receiver.URL, "types": []string{api.FactEventDone}, "state": api.WebhookOff})
	for began := time.Now(); ; {
		var answer api.WebhookAnswer
		if p.must(200, &answer, "POST", "/v1/webhooks/"+id+"/test", nil); answer.Status != 200 {
			t.Fatalf("%+v", answer)
		}
		at, err := strconv.ParseInt(<-dated, 10, 64)
		if off := time.Since(time.Unix(at, 0)); err != nil || off.Abs() > 20*time.Second {
			t.Fatalf("a request is dated %v ago, %v", off, err)
		}
		if time.Since(began) >= lasts {
			return
		}
	}
}

// putSale makes a sale of ten units in a window around the present.
func (p *program) putSale(id string, from, to time.Duration, holdMS int64) {
	p.t.Helper()
	now := time.Now()
	p.must(201, nil, "PUT", "/v1/sales/"+id, map[string]any{
		"items": []any{map[string]any{"sku": "s", "stock": 10}}, "starts_at": now.Add(from), "ends_at": now.Add(to), "hold_ms": holdMS,
	})
}

// mustReserve takes a unit and returns the reservation, or the code of the refusal.
func (p *program) mustReserve(sale string) (id, code string) {
	p.t.Helper()
	_, answer, err := p.try("POST", "/v1/sales/"+sale+"/reservations", map[string]any{"user": "u", "lines": []any{map[string]any{"sku": "s", "quantity": 1}}})
	storetest.Must(p.t, err)
	var v verdict
	storetest.Must(p.t, json.Unmarshal(answer, &v))
	return v.ID, v.Code
}

func checkWindows(t *testing.T, p *program, name string) {
	t.Helper()
	p.putSale("open-"+name, -time.Minute, time.Minute, 60_000)
	if _, code := p.mustReserve("open-" + name); code != "" {
		t.Errorf("a sale that runs: %s", code)
	}
	p.putSale("early-"+name, time.Minute, 10*time.Minute, 60_000)
	if _, code := p.mustReserve("early-" + name); code != string(api.CodeNotStarted) {
		t.Errorf("a sale that begins in a minute: %q", code)
	}
	const soon = 3 * time.Second
	began := time.Now()
	p.putSale("short-"+name, -time.Minute, soon, 60_000)
	storetest.Eventually(t, 20*time.Second, "the sale to end", func() bool {
		_, code := p.mustReserve("short-" + name)
		return code == string(api.CodeEnded)
	})
	if took := time.Since(began); took < soon-500*time.Millisecond {
		t.Errorf("it ended after %v, not %v", took, soon)
	}
}

func checkHold(t *testing.T, p *program, sale string) {
	t.Helper()
	const hold = 3 * time.Second
	p.putSale(sale, -time.Minute, time.Hour, hold.Milliseconds())
	id, _ := p.mustReserve(sale)
	p.must(200, nil, "POST", "/v1/sales/"+sale+"/reservations/"+id+"/confirm", nil)
	began := time.Now()
	id, _ = p.mustReserve(sale)
	storetest.Eventually(t, 20*time.Second, "the hold to end", func() bool {
		var r api.Reservation
		p.must(200, &r, "GET", "/v1/sales/"+sale+"/reservations/"+id, nil)
		return r.State == api.ReservationExpired
	})
	if took := time.Since(began); took < hold-500*time.Millisecond {
		t.Errorf("it ended after %v, not %v", took, hold)
	}
	storetest.Eventually(t, 20*time.Second, "its unit to be back", func() bool {
		var s api.Sale
		p.must(200, &s, "GET", "/v1/sales/"+sale, nil)
		return s.Items[0].Available == 9 && s.Items[0].Sold == 1
	})
}
