package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// faultsOfALink are the faults of a network link, and how to end them.
var faultsOfALink = map[string]struct{ begin, end func(*storetest.Proxy) }{
	"Latency":   {func(p *storetest.Proxy) { p.Delay(500 * time.Millisecond) }, func(p *storetest.Proxy) { p.Delay(0) }},
	"Resets":    {func(p *storetest.Proxy) { p.Resets(0.05, 1) }, func(p *storetest.Proxy) { p.Resets(0, 1) }},
	"BlackHole": {hold, release},
	"Slow":      {func(p *storetest.Proxy) { p.Rate(10 << 10) }, func(p *storetest.Proxy) { p.Rate(0) }},
}

// links are the connections to a server's dependencies.
var links = []string{"Redis", "SQL", "APNs"}

// linkFault is a fault on one of the links.
type linkFault struct{ link, fault string }

// together lists each fault on each link, singly and in pairs. In the short form it lists some
// pairs that contain every fault and every link.
func together() (cases [][]linkFault) {
	if !storetest.Full() {
		return [][]linkFault{
			{{"Redis", "Resets"}, {"APNs", "Latency"}},
			{{"Redis", "Slow"}, {"SQL", "BlackHole"}},
			{{"Redis", "BlackHole"}, {"APNs", "Resets"}},
		}
	}
	var all []linkFault
	for _, link := range links {
		for _, fault := range slices.Sorted(maps.Keys(faultsOfALink)) {
			all = append(all, linkFault{link, fault})
		}
	}
	for i, one := range all {
		cases = append(cases, []linkFault{one})
		for _, other := range all[i+1:] {
			cases = append(cases, []linkFault{one, other})
		}
	}
	return cases
}

// Faults of the links between a server and Redis, SQL and APNs, singly and in pairs. Every request
// is answered in time, with success or with a problem that says to try again. No accepted work is
// lost, and the numbers of goroutines and connections return to where they were.
func TestFaultsOfLinks(t *testing.T) {
	t.Parallel()
	skipFaults(t)
	for _, faults := range together() {
		name := ""
		for _, f := range faults {
			name += f.fault + "To" + f.link
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkFaultsOfLinks(t, faults)
		})
	}
}

func checkFaultsOfLinks(t *testing.T, faults []linkFault) {
	t.Helper()
	apns, redis := apnstest.Start(t, apnstest.Options{}), storetest.Redis(t)
	proxies, urls := map[string]*storetest.Proxy{}, map[string]string{}
	for link, url := range map[string]string{"Redis": redis.URL(), "SQL": storetest.MySQL(t), "APNs": apns.URL()} {
		proxies[link], urls[link] = storetest.ProxyTo(t, url)
	}
	private := fmt.Sprintf("127.0.0.1:%d", storetest.FreePort(t))
	p := mustServe(t, t.TempDir(), quick(append(apns.Env(), "FANFARE_APNS_URL="+urls["APNs"], "FANFARE_REDIS_URL="+urls["Redis"],
		"FANFARE_DATABASE_URL="+urls["SQL"], "FANFARE_METRICS_ADDR="+private, "FANFARE_RETRY_MAX=2s")...)...)
	p.http = &http.Client{Timeout: client.Timeout, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	w := newTraffic(t, "all", []*program{p}, apns, places{users: []int{0, 1, 2}, reader: "reader", chat: "chat", sale: "sale"})
	w.mustPrepare()
	w.start()
	w.awaitDone(10)
	before := p.goroutines(private)
	for _, f := range faults {
		faultsOfALink[f.fault].begin(proxies[f.link])
	}
	<-time.After(lasts(30*time.Second, 4*time.Second))
	w.report("under the fault")
	for _, f := range faults {
		faultsOfALink[f.fault].end(proxies[f.link])
	}
	healed := time.Now()
	w.awaitDone(10)
	t.Logf("all is done again after %v", time.Since(healed).Round(time.Millisecond))
	w.finish()
	w.report("in the end")
	w.checkPromises(time.Minute)
	p.http.CloseIdleConnections()
	// A connection in a pool may have a goroutine.
	storetest.Eventually(t, time.Minute, fmt.Sprintf("at most %d goroutines again", before), func() bool { return p.goroutines(private) <= before })
	conns := len(proxies["Redis"].Conns())
	if clients, err := redis.Client().ClientList(t.Context()).Result(); err != nil || conns > mostConnections {
		t.Errorf("%d connections to Redis, %v: %s", conns, err, clients)
	}
	if n := len(proxies["SQL"].Conns()); n > mostConnections {
		t.Errorf("%d connections to SQL", n)
	}
	if n := len(proxies["APNs"].Conns()); n > 4 {
		t.Errorf("%d connections to APNs", n)
	}
}

// mostConnections is how many connections a server keeps open to Redis: two pools of 32, for
// commands and for pipelines, which may be full after a black hole; one for each shard of its three
// queues; and some for pub/sub. It has fewer to SQL.
const mostConnections = 2*32 + 3*8 + 4

var goroutinesTotal = regexp.MustCompile(`goroutine profile: total (\d+)`)

// goroutines is the number of goroutines, from the private address.
func (p *program) goroutines(private string) int {
	p.t.Helper()
	status, body, err := (&program{base: "http://" + private}).try("GET", "/debug/pprof/goroutine?debug=1", nil)
	m := goroutinesTotal.FindSubmatch(body)
	if err != nil || m == nil {
		p.t.Fatalf("goroutines: %d %v", status, err)
	}
	n, err := strconv.Atoi(string(m[1]))
	storetest.Must(p.t, err)
	return n
}
