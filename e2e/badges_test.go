package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// badge is the answer of the calls of a badge.
type badge struct {
	Count, Version int64
	Since          *time.Time
}

func (p *program) mustBadge(user string) (b badge) {
	p.t.Helper()
	p.must(200, &b, http.MethodGet, "/v1/users/"+user+"/badge", nil)
	return b
}

// shownIn reads the event and the number of a request to APNs.
func shownIn(t testing.TB, r apnstest.Request) (event string, number int) {
	t.Helper()
	read := struct {
		EventID string `json:"event_id"`
		APS     struct{ Badge int }
	}{}
	storetest.Must(t, json.Unmarshal(r.Payload, &read))
	return read.EventID, read.APS.Badge
}

// B1: all servers are killed after they have raised badges and before anything was sent, again and again, on a Cluster. In
// the end each event has raised the badge of each of its users once, and all devices of a user, in all tries, show the number
// that the event gave the user.
func TestB1_KilledBetweenAddAndSend(t *testing.T) {
	t.Parallel()
	const users, perUser, rounds, perRound = 9, 3, 3, 6
	device := map[string]string{"platform": "apns", "topic": apnstest.DefaultTopic, "environment": "production"}
	c := storetest.PrivateCluster(t, 0)
	apns := apnstest.Start(t, apnstest.Options{})
	apns.Refuse(true) // nobody gets a connection
	vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+c.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)
	servers := mustServeMany(t, 2, vars...)
	servers[0].must(201, nil, http.MethodPut, "/v1/event-types/add", map[string]any{"title": "T", "badge": "add"})
	var names []string
	of := map[string]string{} // users by token
	for u := range users {
		names = append(names, fmt.Sprintf("user-%d", u))
		for d := range perUser {
			token := deviceToken(u*perUser + d)
			of[token] = names[u]
			servers[0].must(201, nil, http.MethodPut, "/v1/users/"+names[u]+"/devices/"+token, device)
		}
	}
	client := storetest.Open(t, c.URL()).Client()
	raised := func() (sum int64) {
		for _, user := range names {
			count, _, _ := strings.Cut(client.Get(t.Context(), "ff:{badge:"+user+"}:count").Val(), " ")
			n, _ := strconv.ParseInt(count, 10, 64) // there may be none yet
			sum += n
		}
		return sum
	}
	post := func(p *program) {
		p.must(202, nil, http.MethodPost, "/v1/events", map[string]any{"type": "add", "audience": map[string]any{"users": names}})
	}
	for round := range rounds {
		before := raised()
		for range perRound {
			post(servers[round%2])
		}
		storetest.Eventually(t, time.Minute, "some badges are raised", func() bool { return raised() > before })
		for _, p := range servers {
			p.kill()
		}
		if n := apns.Total(); n != 0 {
			t.Fatalf("%d requests reached APNs", n)
		}
		servers = mustServeMany(t, 2, vars...)
	}
	const events = rounds * perRound
	storetest.Eventually(t, 2*time.Minute, "all badges are raised", func() bool { return raised() >= users*events })
	apns.Refuse(false)
	gave := map[string]map[string]int{} // by user and event
	storetest.Eventually(t, 2*time.Minute, "all devices got all events", func() bool {
		pairs := map[string]bool{}
		for _, r := range apns.Requests() {
			event, _ := shownIn(t, r)
			pairs[r.Token+" "+event] = true
		}
		return len(pairs) == users*perUser*events
	})
	for _, r := range apns.Requests() {
		user := of[r.Token]
		event, number := shownIn(t, r)
		if gave[user] == nil {
			gave[user] = map[string]int{}
		}
		if was, ok := gave[user][event]; ok && was != number {
			t.Errorf("%s was sent %d and %d for one event", user, was, number)
		}
		gave[user][event] = number
	}
	for user, numbers := range gave {
		seen := map[int]bool{}
		for _, n := range numbers {
			seen[n] = n >= 1 && n <= events
		}
		if len(seen) != events {
			t.Errorf("%s was sent the numbers %v for %d events", user, numbers, events)
		}
		if b := servers[0].mustBadge(user); b.Count != events {
			t.Errorf("the badge of %s is %d after %d events", user, b.Count, events)
		}
	}
}

// B2: a push of a chat message shows in how many chats the user has unread messages, and leaves the user's badge as it is. A cleared
// badge reaches the phone without a text.
func TestB2_UnreadChatsOnADevice(t *testing.T) {
	t.Parallel()
	apns := apnstest.Start(t, apnstest.Options{})
	p := mustServe(t, t.TempDir(), append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL())...)
	p.must(201, nil, http.MethodPut, "/v1/event-types/chat.message", map[string]any{"title": "{{.actor}}", "body": "{{.data.text}}", "badge": "unread"})
	p.must(201, nil, http.MethodPut, "/v1/users/bob/devices/"+deviceToken(1), map[string]string{"platform": "apns", "topic": apnstest.DefaultTopic, "environment": "production"})
	for _, chat := range []string{"one", "two", "three"} {
		p.must(201, nil, http.MethodPost, "/v1/chats", map[string]any{"id": chat, "creator": "ann", "members": []string{"bob"}})
	}
	p.must(200, nil, http.MethodPut, "/v1/users/bob/badge", map[string]any{"count": 40})
	before := p.mustBadge("bob")
	var got []int
	for n, chat := range []string{"one", "one", "two", "three"} {
		p.mustSay(chat, "ann", "hello")
		storetest.Eventually(t, time.Minute, "the push arrives", func() bool { return apns.Total() == n+1 })
		_, number := shownIn(t, apns.Requests()[n])
		got = append(got, number)
	}
	p.must(200, nil, http.MethodPost, "/v1/users/bob/messages/ack", map[string]any{"acks": map[string]int{"one": 2, "two": 1}})
	p.mustSay("two", "ann", "again")
	storetest.Eventually(t, time.Minute, "the push arrives", func() bool { return apns.Total() == 5 })
	_, number := shownIn(t, apns.Requests()[4])
	if got = append(got, number); !slices.Equal(got, []int{1, 1, 2, 3, 2}) {
		t.Errorf("the pushes show %v", got)
	}
	if after := p.mustBadge("bob"); after.Count != 40 || after.Version != before.Version || !after.Since.Equal(*before.Since) {
		t.Errorf("the badge was %+v, and is %+v after the pushes", before, after)
	}

	p.must(200, nil, http.MethodPut, "/v1/users/bob/badge", map[string]any{"count": 0, "clear": true})
	storetest.Eventually(t, time.Minute, "the number arrives", func() bool { return apns.Total() == 6 })
	event, number := shownIn(t, apns.Requests()[5])
	if want := `{"aps":{"badge":0},"event_id":"` + event + `","type":"fanfare.badge"}`; string(apns.Requests()[5].Payload) != want || number != 0 {
		t.Errorf("%s, want %s", apns.Requests()[5].Payload, want)
	}
}

// B2: a Redis that has lost its data begins at 0 and says so: there is no version, and later another time since which there
// is a badge.
func TestB2_ALostRedisSaysSo(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	p := mustServe(t, t.TempDir(), "FANFARE_REDIS_URL="+redis.URL())
	p.must(200, nil, http.MethodPut, "/v1/users/bob/badge", map[string]any{"count": 5})
	p.must(200, nil, http.MethodPost, "/v1/users/bob/badge", map[string]any{"delta": 2})
	before := p.mustBadge("bob")
	if before.Count != 7 || before.Version == 0 || before.Since == nil {
		t.Fatalf("%+v", before)
	}
	redis.Restart()
	var lost badge
	storetest.Eventually(t, time.Minute, "Redis is back", func() bool {
		status, answer, err := p.try(http.MethodGet, "/v1/users/bob/badge", nil)
		lost = badge{}
		return err == nil && status == 200 && json.Unmarshal(answer, &lost) == nil
	})
	if lost != (badge{}) {
		t.Errorf("after the loss %+v", lost)
	}
	var again badge
	storetest.Eventually(t, time.Minute, "Redis takes changes", func() bool {
		status, answer, err := p.try(http.MethodPost, "/v1/users/bob/badge", map[string]any{"delta": 1}, "Idempotency-Key", "again")
		return err == nil && status == 200 && json.Unmarshal(answer, &again) == nil
	})
	if again.Count != 1 || again.Version <= before.Version || again.Since == nil || !again.Since.After(*before.Since) {
		t.Errorf("before %+v, then %+v", before, again)
	}
}
