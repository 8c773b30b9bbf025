package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
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

// requestDeadline is FANFARE_REQUEST_TIMEOUT, within which every request is answered. On a busy
// machine the answer itself may be late.
const (
	requestDeadline = 5 * time.Second
	answerLate      = 5 * time.Second
)

// places are the names that the requests of a traffic use. mustPrepare makes the things.
type places struct {
	users        []int // by the number of the user's device
	reader, chat string
	sale         string
}

// traffic has clients of all features. Each client makes one request after the other and records
// what was promised to it.
type traffic struct {
	t       *testing.T
	name    string
	servers []*program
	apns    *apnstest.Server
	places
	// pause is the time between two requests of a client.
	pause time.Duration

	mu      sync.Mutex
	tallies map[string]*tally
	events  map[string]accepted // by id
	said    map[string]bool     // texts of sent messages
	heard   map[string]int      // how often a text came on the stream
	sold    map[string]bool     // reservations that were confirmed

	stopAsking, stopListening context.CancelFunc
	clients, listener         sync.WaitGroup
}

// accepted is an event that was accepted.
type accepted struct {
	token string
	at    time.Time
}

// tally counts the outcomes of requests of one kind.
type tally struct {
	done    int
	refused map[string]int // by code
	wrong   []string
	slowest time.Duration
}

func (y *tally) String() string {
	return fmt.Sprintf("%d done, refused %v, slowest %v", y.done, y.refused, y.slowest.Round(time.Millisecond))
}

// newTraffic makes the traffic between clients and servers, see start.
func newTraffic(t *testing.T, name string, servers []*program, apns *apnstest.Server, at places) *traffic {
	return &traffic{
		t: t, name: name, servers: servers, apns: apns, places: at, pause: 25 * time.Millisecond,
		tallies: map[string]*tally{}, events: map[string]accepted{}, said: map[string]bool{}, heard: map[string]int{}, sold: map[string]bool{},
	}
}

// stockOfTraffic is more stock than a traffic ever buys.
const stockOfTraffic = 1_000_000

// mustPrepare makes the things that the requests use.
func (w *traffic) mustPrepare() {
	w.t.Helper()
	p := w.servers[0]
	for _, n := range w.users {
		p.must(201, nil, "PUT", fmt.Sprintf("/v1/users/user-%d/devices/%s", n, deviceToken(n)),
			map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "production"})
	}
	p.must(201, nil, "PUT", "/v1/users/"+w.reader+"/contacts/friend-of-"+w.name, map[string]string{"relationship": "friend"})
	p.must(202, nil, "POST", "/v1/uploads", map[string]any{"id": "upload-" + w.name, "owner": "friend-of-" + w.name, "visibility": "public"})
	p.must(201, nil, "POST", "/v1/chats", map[string]any{"id": w.chat, "creator": "talker", "members": []string{w.reader}})
	p.must(201, nil, "PUT", "/v1/sales/"+w.sale, map[string]any{
		"items":     []any{map[string]any{"sku": "s", "stock": stockOfTraffic}},
		"starts_at": time.Now().Add(-time.Hour), "ends_at": time.Now().Add(time.Hour),
	})
	storetest.Eventually(w.t, 30*time.Second, "the contact is recent", func() bool {
		_, answer, err := p.try("GET", "/v1/users/"+w.reader+"/recent-contacts", nil)
		return err == nil && strings.Contains(string(answer), "friend-of-"+w.name)
	})
}

// start lets all clients begin.
func (w *traffic) start() {
	asking, stopAsking := context.WithCancel(context.Background())
	listening, stopListening := context.WithCancel(context.Background())
	w.stopAsking, w.stopListening = stopAsking, stopListening
	w.t.Cleanup(stopAsking)
	w.t.Cleanup(stopListening)
	for _, client := range []func(i int){w.postEvent, w.say, w.buy, w.lookForContacts} {
		w.clients.Go(func() {
			for i := 0; asking.Err() == nil; i++ {
				client(i)
				<-time.After(w.pause)
			}
		})
	}
	w.listener.Go(func() { w.listen(listening) })
}

// finish ends the requests, and ends the stream after all sent messages have arrived.
func (w *traffic) finish() {
	w.t.Helper()
	w.stopAsking()
	w.clients.Wait()
	unheard := func() (texts []string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for text := range w.said {
			if w.heard[text] == 0 {
				texts = append(texts, text)
			}
		}
		return texts
	}
	defer func() {
		if texts := unheard(); len(texts) > 0 {
			w.t.Errorf("%s: %d of %d messages were not brought, such as %s", w.name, len(texts), len(w.said), texts)
		}
	}()
	storetest.Eventually(w.t, 20*time.Second, w.name+": the stream has brought every message", func() bool { return len(unheard()) == 0 })
	w.end()
}

// end ends the requests and the stream at once.
func (w *traffic) end() {
	w.stopAsking()
	w.stopListening()
	w.clients.Wait()
	w.listener.Wait()
}

// ask makes a request and records its answer, which must come in time: success, or a problem that
// says to try again.
func (w *traffic) ask(kind string, i, want int, method, path string, body any, header ...string) (answer []byte, ok bool) {
	began := time.Now()
	status, answer, err := w.servers[i%len(w.servers)].try(method, path, body, header...)
	took := time.Since(began)
	var problem struct {
		Code   string
		Status int
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	y := w.tallies[kind]
	if y == nil {
		y = &tally{refused: map[string]int{}}
		w.tallies[kind] = y
	}
	y.slowest = max(y.slowest, took)
	switch {
	case took > requestDeadline+answerLate:
		y.wrong = append(y.wrong, fmt.Sprintf("%s took %v", path, took))
	case err != nil:
		y.wrong = append(y.wrong, err.Error())
	case status == want:
		y.done++
		return answer, true
	case (status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout) && json.Unmarshal(answer, &problem) == nil && problem.Status == status:
		y.refused[problem.Code]++
	default:
		y.wrong = append(y.wrong, fmt.Sprintf("%s: %d %s", path, status, answer))
	}
	return nil, false
}

func (w *traffic) postEvent(i int) {
	user := w.users[i%len(w.users)]
	answer, ok := w.ask("event", i, 202, "POST", "/v1/events", greeting(fmt.Sprintf("user-%d", user)))
	var event struct{ ID string }
	if ok && json.Unmarshal(answer, &event) == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events[event.ID] = accepted{deviceToken(user), time.Now()}
	}
}

func (w *traffic) say(i int) {
	text := fmt.Sprintf("%s-%d", w.name, i)
	if _, ok := w.ask("message", i, 201, "POST", "/v1/chats/"+w.chat+"/messages", map[string]string{"sender": "talker", "text": text}); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.said[text] = true
	}
}

func (w *traffic) buy(i int) {
	path := "/v1/sales/" + w.sale + "/reservations"
	answer, ok := w.ask("reserve", i, 201, "POST", path, map[string]any{"user": fmt.Sprint("buyer-", i), "lines": []any{map[string]any{"sku": "s", "quantity": 1}}})
	var r api.Reservation
	if !ok || json.Unmarshal(answer, &r) != nil {
		return
	}
	if _, ok = w.ask("confirm", i, 200, "POST", path+"/"+r.ID+"/confirm", nil); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sold[r.ID] = true
	}
}

func (w *traffic) lookForContacts(i int) {
	answer, ok := w.ask("contacts", i, 200, "GET", "/v1/users/"+w.reader+"/recent-contacts", nil)
	if ok && !strings.Contains(string(answer), "friend-of-"+w.name) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tallies["contacts"].wrong = append(w.tallies["contacts"].wrong, string(answer))
	}
}

// listen follows the reader's stream, and opens it again where it ended.
func (w *traffic) listen(ctx context.Context) {
	own := &http.Client{Transport: &http.Transport{}}
	for last, i := "", 0; ctx.Err() == nil; i++ {
		last = w.listenOnce(ctx, own, w.servers[i%len(w.servers)], last)
		<-time.After(w.pause)
	}
}

// listenOnce reads a stream to its end, and returns the id after which to go on.
func (w *traffic) listenOnce(ctx context.Context, own *http.Client, p *program, last string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/v1/users/"+w.reader+"/messages/stream", nil)
	if err != nil {
		return last
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := own.Do(req)
	if err != nil {
		return last
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); resp.StatusCode == http.StatusOK && lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		var m struct{ Text string }
		switch {
		case name == "id":
			last = value
		case name == "data" && json.Unmarshal([]byte(value), &m) == nil && m.Text != "":
			w.mu.Lock()
			w.heard[m.Text]++
			w.mu.Unlock()
		}
	}
	return last
}

// since counts the done and refused requests since the last call.
func (w *traffic) since() map[string]tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]tally{}
	for kind, y := range w.tallies {
		out[kind] = *y
		if len(y.wrong) > 0 {
			w.t.Errorf("%s: %s: %d wrong answers, such as %s", w.name, kind, len(y.wrong), y.wrong[0])
		}
		w.tallies[kind] = &tally{refused: map[string]int{}}
	}
	return out
}

// report logs and returns the numbers of done and refused requests since the last call.
func (w *traffic) report(when string) map[string]tally {
	w.t.Helper()
	got := w.since()
	for _, kind := range slices.Sorted(maps.Keys(got)) {
		y := got[kind]
		w.t.Logf("%s, %s: %s: %s", w.name, when, kind, &y)
	}
	return got
}

// kinds are the kinds of requests.
var kinds = []string{"event", "message", "reserve", "confirm", "contacts"}

// awaitDone waits until a further number of requests of each kind are done.
func (w *traffic) awaitDone(n int) {
	w.t.Helper()
	w.since()
	storetest.Eventually(w.t, time.Minute, fmt.Sprintf("%s: %d requests of each kind are done", w.name, n), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !slices.ContainsFunc(kinds, func(kind string) bool { return w.tallies[kind] == nil || w.tallies[kind].done < n })
	})
}

// checkGoesOn makes sure that nearly no requests of these kinds were refused since the last report.
func (w *traffic) checkGoesOn(kinds ...string) {
	w.t.Helper()
	got := w.report("goes on")
	for _, kind := range kinds {
		y, refused := got[kind], 0
		for _, n := range y.refused {
			refused += n
		}
		if y.done < 5 || refused > 1+y.done/20 {
			w.t.Errorf("%s: %s does not go on: %s", w.name, kind, &y)
		}
	}
}

// checkIsRefused makes sure that requests of these kinds were refused since the last report, and
// that events wait.
func (w *traffic) checkIsRefused() {
	w.t.Helper()
	got := w.report("is away")
	for _, kind := range []string{"message", "reserve", "contacts"} {
		if y := got[kind]; y.done > 0 || len(y.refused) == 0 {
			w.t.Errorf("%s: %s: %s", w.name, kind, &y)
		}
	}
	if y := got["event"]; y.done == 0 {
		w.t.Errorf("%s: event: %s", w.name, &y)
	}
}

// checkPromises waits until all accepted work has been done, and makes sure that nothing was done
// twice that must not be.
func (w *traffic) checkPromises(within time.Duration) {
	w.t.Helper()
	w.awaitNone(within, "events that were accepted are not sent", func() int { return len(w.missing(time.Now())) })
	for text, n := range w.heard {
		if n > 1 {
			w.t.Errorf("%s: the stream brought %s %d times", w.name, text, n)
		}
	}
	m := &market{t: w.t, sale: w.sale, servers: func() []*program { return w.servers }}
	w.awaitNone(within, "reservations that were confirmed are not on record", func() (missing int) {
		rows := map[string]bool{}
		for _, o := range m.orders() {
			rows[o.Reservation] = true
		}
		for id := range w.sold {
			if !rows[id] {
				missing++
			}
		}
		return missing
	})
}

// awaitNone waits until a number is zero. If that does not happen, it reports the number.
func (w *traffic) awaitNone(within time.Duration, what string, count func() int) {
	w.t.Helper()
	first, left := count(), 0
	defer func() {
		if left > 0 {
			w.t.Errorf("%s: of %d at first %d %s", w.name, first, left, what)
		}
	}()
	storetest.Eventually(w.t, within, w.name+": no "+what, func() bool {
		left = count()
		return left == 0
	})
}

// all are the events that were accepted, by id.
func (w *traffic) all() map[string]accepted {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.events)
}

// missing are the events that were accepted before a time and did not reach APNs.
func (w *traffic) missing(before time.Time) (ids []string) {
	sent := map[string]bool{}
	for _, r := range w.apns.Requests() {
		sent[eventOf(w.t, r)+" "+r.Token] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, a := range w.events {
		if a.at.Before(before) && !sent[id+" "+a.token] {
			ids = append(ids, id)
		}
	}
	return ids
}
