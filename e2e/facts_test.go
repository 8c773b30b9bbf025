package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// told are the facts that a reader got, by key, in their order.
type told struct {
	facts map[string][]api.Fact
	ids   map[string]bool
	gap   int64
	after string
}

func newTold() *told { return &told{facts: map[string][]api.Fact{}, ids: map[string]bool{}} }

// read reads what comes within the wait, from any of the servers that answer.
func (f *told) read(t testing.TB, p *program, wait time.Duration) (n int) {
	t.Helper()
	var list api.FactList
	status, answer, err := p.try(http.MethodGet, fmt.Sprintf("/v1/facts?limit=500&wait_ms=%d&after=%s", wait.Milliseconds(), f.after), nil)
	if err != nil || status >= 500 {
		return 0 // it was killed
	}
	storetest.Must(t, json.Unmarshal(answer, &list))
	if status != http.StatusOK {
		t.Fatalf("facts: %d %s", status, answer)
	}
	for _, one := range list.Items {
		if f.ids[one.ID] {
			t.Errorf("the fact %s came twice", one.ID)
		}
		f.ids[one.ID] = true
		f.facts[one.Key] = append(f.facts[one.Key], one)
	}
	f.after, f.gap = list.Next, f.gap+list.Gap
	return len(list.Items)
}

// mustTell turns types of facts on and waits until none is missing.
func (p *program) mustTellFacts(types ...string) {
	p.t.Helper()
	var set api.FactTypesSet
	p.must(200, &set, "PUT", "/v1/facts/types", map[string]any{"types": types})
	storetest.Eventually(p.t, time.Minute, "no fact is missing", func() bool { return time.Now().After(set.Since.Time) })
}

// refusing answers by the number of the device: some are refused for good, some once, some become dead letters.
func refusing(n int) func(r *apnstest.Request) (apnstest.Answer, bool) {
	kind := map[string]int{}
	for i := range n {
		kind[deviceToken(i)] = i % 10
	}
	var mu sync.Mutex
	asked := map[string]int{}
	return func(r *apnstest.Request) (a apnstest.Answer, ok bool) {
		mu.Lock()
		asked[r.Token]++
		times := asked[r.Token]
		mu.Unlock()
		switch kind[r.Token] {
		case 3:
			return apnstest.Answer{Status: 400, Reason: "NotThisOne"}, true
		case 5:
			return apnstest.Answer{Status: 503, Reason: "ServiceUnavailable"}, times == 1
		case 7:
			return apnstest.Answer{Status: 400, Reason: "BadCollapseId"}, true
		}
		return a, false
	}
}

// H1, H2: events of all kinds are posted while two processes are killed in turns. The feed tells of each that it is over, once and after
// each notification of it that failed, and tells each of these once; each dead letter is told once.
func TestH1_KillsLoseNoFact(t *testing.T) {
	t.Parallel()
	n := storetest.Sized(4000, 1200)
	devices := n + 600
	apns := apnstest.Start(t, apnstest.Options{})
	apns.ScriptFunc(refusing(devices))
	vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)
	k := newKilled(t, vars)
	k.now()[0].mustRegister(devices)
	k.now()[0].mustTellFacts(api.FactTypes...)
	pace := time.NewTicker(12 * time.Second / time.Duration(n)) // so that there is time for some kills
	defer pace.Stop()
	posts := &mixedPosts{n: n, servers: k.now, ids: make([]string, n), pace: pace.C}
	f := newTold()
	k.run(f, func() error { return spread(n, posts.post) })
	over := func() (left int) {
		for _, id := range posts.ids {
			if !slices.ContainsFunc(f.facts[id], func(one api.Fact) bool { return one.Type == api.FactEventDone }) {
				left++
			}
		}
		return left
	}
	storetest.Eventually(t, 3*time.Minute, "all events are told to be over", func() bool {
		f.read(t, k.now()[0], time.Second)
		return over() == 0
	})
	if f.read(t, k.now()[0], 2*time.Second); f.gap != 0 {
		t.Errorf("a gap of %d", f.gap)
	}
	t.Logf("%d events, %d kills, %d facts", n, k.kills, len(f.ids))
	posts.check(t, k.now()[0], f)
	f.checkLetters(t, k.now()[0])
}

// mixedPosts are events of different sizes.
type mixedPosts struct {
	n       int
	servers func() []*program
	ids     []string
	pace    <-chan time.Time // allows a post at each tick
}

// body is the i-th event: mostly to one user, some to four, and a few to so many that they are split.
func (m *mixedPosts) body(i int) map[string]any {
	users := []string{fmt.Sprintf("user-%d", i)}
	switch {
	case i%200 == 11:
		for k := range 250 {
			users = append(users, fmt.Sprintf("user-%d", m.n+k*2+i%2))
		}
	case i%4 == 1:
		for k := range 3 {
			users = append(users, fmt.Sprintf("user-%d", m.n+500+(i+k)%100))
		}
	}
	return greeting(users...)
}

func (m *mixedPosts) post(i int) error {
	<-m.pace
	deadline := time.Now().Add(2 * time.Minute)
	for attempt := 0; ; attempt++ {
		all := m.servers()
		status, answer, err := all[(i+attempt)%len(all)].try(http.MethodPost, "/v1/events", m.body(i), "Idempotency-Key", fmt.Sprintf("facts-%d", i))
		var accepted struct{ ID string }
		switch {
		case err == nil && status == http.StatusAccepted:
			err = json.Unmarshal(answer, &accepted)
			m.ids[i] = accepted.ID
			return err
		case err == nil && status < 500 || time.Now().After(deadline):
			return fmt.Errorf("post %d: %w %d %s", i, err, status, answer)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// check compares the facts of each event with its report.
func (m *mixedPosts) check(t *testing.T, p *program, f *told) {
	t.Helper()
	wrong, failures := 0, 0
	for i, id := range m.ids {
		var r api.EventReport
		p.must(200, &r, "GET", "/v1/events/"+id, nil)
		var types []string
		for _, one := range f.facts[id] {
			if one.Type != api.FactDeadLetterCreated {
				types = append(types, one.Type)
			}
		}
		want := append(slices.Repeat([]string{api.FactNotificationFailed}, int(r.Failed)), api.FactEventDone)
		failures += int(r.Failed)
		last := f.facts[id][len(f.facts[id])-1]
		var d struct {
			State                                                            string
			Recipients, Notifications, Delivered, Failed, Expired, Cancelled int64
		}
		storetest.Must(t, json.Unmarshal(last.Data, &d))
		same := d.State == string(r.State) && d.Recipients == *r.Recipients && d.Notifications == r.Notifications && d.Delivered == r.Delivered && d.Failed == r.Failed
		if !slices.Equal(types, want) || last.Type != api.FactEventDone || !same || r.State != api.EventDone {
			if wrong++; wrong <= 3 {
				t.Errorf("event %d, %s: %v with %s, want %v with %+v", i, id, types, last.Data, want, r)
			}
		}
	}
	if wrong > 0 || failures < m.n/20 {
		t.Errorf("%d events have other facts than their reports; %d notifications failed", wrong, failures)
	}
}

// checkLetters compares the facts of dead letters with the letters that are there.
func (f *told) checkLetters(t *testing.T, p *program) {
	t.Helper()
	want, got := map[string]int{}, map[string]int{}
	for cursor := ""; ; {
		var list api.DeadLetterList
		p.must(200, &list, "GET", "/v1/dead-letters?limit=100&cursor="+cursor, nil)
		for _, l := range list.Items {
			want[l.ID]++
		}
		if cursor = list.Next; cursor == "" {
			break
		}
	}
	for _, facts := range f.facts {
		for _, one := range facts {
			var d struct{ ID, Reason string }
			if one.Type == api.FactDeadLetterCreated {
				storetest.Must(t, json.Unmarshal(one.Data, &d))
				got[d.ID]++
			}
		}
	}
	if len(want) == 0 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d dead letters are there, %d are told: %s", len(want), len(got), strings.Join(differ(got, want), " "))
	}
}

// differ lists the names whose numbers differ.
func differ(a, b map[string]int) (names []string) {
	for name := range a {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	for name := range b {
		if a[name] == 0 {
			names = append(names, name)
		}
	}
	return names[:min(len(names), 5)]
}
