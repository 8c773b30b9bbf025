package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/webpush/webpushtest"
	"fanfare/store/storetest"
)

// The users with a browser, by number.
const (
	soakPages   = 60
	soakRegular = 10 // users below this number keep their subscriptions
)

// soakOrigins are where the browsers' push services are.
var soakOrigins = []string{"fcm.googleapis.com", "updates.push.services.mozilla.com"}

// pagesTraffic are browsers, most of which subscribe anew now and then. All subscriptions but those of regular
// users may expire at once.
type pagesTraffic struct {
	s        *soak
	services *webpushtest.Server
	mu       sync.Mutex
	pages    [soakPages]*webpushtest.Browser // the subscription that was registered last
	tokens   [soakPages]string               // its token
	told     [soakRegular]int                // events that were accepted
}

// soakApps writes the apps file of a slot: an app of Web Push and, in the last slot, one of APNs with a
// certificate, which the other slots send to with a key.
func (s *soak) soakApps(n int, apns *apnstest.Server) []string {
	apps := []any{s.pages.services.App("shop")}
	if n == len(s.slots)-1 {
		apps = append(apps, map[string]string{"topic": apnstest.DefaultTopic, "environment": "production", "url": apns.URL(), "cert_file": apns.CertFile()})
	}
	text, err := json.Marshal(map[string]any{"apps": apps})
	storetest.Must(s.t, err)
	file := filepath.Join(s.t.TempDir(), "apps.json")
	storetest.Must(s.t, os.WriteFile(file, text, 0o600))
	return []string{"FANFARE_APPS_FILE=" + file, "FANFARE_WEBPUSH_ALLOW_NETS=127.0.0.0/8", "FANFARE_APP_PROBE_INTERVAL=1s"}
}

func (s *soak) preparePages() *pagesTraffic {
	p := s.pages
	r := rand.New(rand.NewPCG(s.seed, 2))
	for i := range soakPages {
		p.subscribe(r, i)
	}
	<-time.After(2 * time.Second) // P1
	s.work("tell", 0, 300*time.Millisecond, p.tell)
	s.work("subscribe", 0, 500*time.Millisecond, func(r *rand.Rand, _ int) { p.subscribe(r, soakRegular+r.IntN(soakPages-soakRegular)) })
	return p
}

// subscribe lets a page subscribe and register, and take back what it had registered before.
func (p *pagesTraffic) subscribe(r *rand.Rand, user int) {
	b := p.services.MustSubscribe(p.s.t, soakOrigins[user%len(soakOrigins)])
	body := map[string]any{"platform": "webpush", "topic": "shop", "subscription": b.Subscription}
	path, made := fmt.Sprintf("/v1/users/page-%d/devices", user), api.Device{}
	if !p.s.want(r, &made, []int{200, 201}, "POST", path, body) {
		return
	}
	if old := p.tokens[user]; old != "" {
		p.s.want(r, nil, []int{204, 404}, "DELETE", path+"/"+old, nil) // 404: its service has said that it has expired
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages[user], p.tokens[user] = b, made.Token
}

// tell posts an event to a user with a browser.
func (p *pagesTraffic) tell(r *rand.Rand, i int) {
	user := r.IntN(soakPages)
	event := greeting(fmt.Sprint("page-", user))
	if p.s.want(r, nil, []int{202}, "POST", "/v1/events", event, "Idempotency-Key", fmt.Sprint("page", i)) && user < soakRegular {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.told[user]++
	}
}

// expire ends all subscriptions but those of regular users.
func (p *pagesTraffic) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.services.Expire(p.pages[soakRegular:]...)
}

// check compares what regular users were told with what their browsers got. Nobody refuses them, whatever
// others' subscriptions are answered.
func (p *pagesTraffic) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for user, told := range p.told {
		p.s.count("pages told", told)
		p.s.eventually(time.Minute, fmt.Sprintf("page-%d gets %d events, not %d", user, told, p.got(user)), func() bool { return p.got(user) == told })
	}
	for _, refused := range p.services.Refused() {
		if !strings.HasSuffix(refused, "the subscription has ended") {
			p.s.failf("a push service refused %s", refused)
		}
	}
}

// got is how many events a user's browser got.
func (p *pagesTraffic) got(user int) int {
	got := map[string]bool{}
	for _, r := range p.services.Of(p.pages[user]) {
		got[string(r.Payload)] = true
	}
	return len(got)
}

// refusals are the ways in which connections to APNs and subscriptions are refused.
func (s *soak) refusals(victim int, lasts time.Duration) []trouble {
	last, at := s.slots[len(s.slots)-1], s.slots[victim]
	refuse := func(apns *apnstest.Server, set func(bool)) (begin, end func()) {
		return func() { set(true); apns.KillConnections() }, func() { set(false) }
	}
	revoke, renew := refuse(last.apns, last.apns.RefuseCertificates)
	hangUp, pickUp := refuse(at.apns, at.apns.HangUp)
	return []trouble{
		{"APNs: refuses certificates", []int{last.n}, true, lasts, revoke, renew},
		{"APNs: closes after the handshake", []int{victim}, true, lasts, hangUp, pickUp},
		{"Web Push: most subscriptions have expired", allSlots, false, 0, s.pages.expire, func() {}},
	}
}
