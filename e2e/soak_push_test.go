package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The users with a device, by number.
const (
	soakOptedOut = 10  // users below this number have opted out from the beginning
	soakLeavers  = 30  // users below this number opt out and in again
	soakFleeting = 60  // users below this number lose their devices to 410s, and register again
	soakUsers    = 400 // all other users get everything
	followers    = 50  // the last users of this number have star as a contact, and are in the topic star
	lobby        = 40  // the users of this number before them are in a chat
)

const soakType = "soak"

// isFleeting reports whether a device may be dropped by a 410.
func isFleeting(token string) bool {
	n, err := strconv.ParseInt(token, 16, 64)
	return err == nil && n >= 0xabc000000+soakLeavers && n < 0xabc000000+soakFleeting
}

// posting is a call that posts events, either all of them or none.
type posting struct {
	began  time.Time
	state  outcome // answered: all are accepted
	events []soakEvent
}

type soakEvent struct {
	key   string // is in the payload
	id    string // "": the answer is unknown
	users []int
	due   time.Time // zero: at once
}

// pushTraffic has the posted events and their outcomes.
type pushTraffic struct {
	s         *soak
	mu        sync.Mutex
	postings  []*posting
	left      map[int][]absence // of the leavers
	cancelled []cancelledEvent
}

// absence is an opt-out: when it was requested and answered, and when its end was requested (zero:
// not yet).
type absence struct{ asked, answered, back time.Time }

func (s *soak) preparePush() *pushTraffic {
	p := &pushTraffic{s: s, left: map[int][]absence{}}
	first := s.slots[0].now()
	first.mustRegister(soakUsers)
	s.mustBe(201, nil, "PUT", "/v1/event-types/"+soakType, map[string]any{"title": "soak", "body": "{{.data.post}}"})
	s.mustBe(201, nil, "PUT", "/v1/event-types/chat.message", map[string]any{"title": "{{.actor}}", "body": "{{.data.text}}"})
	for i := range soakOptedOut {
		s.mustBe(204, nil, "PUT", fmt.Sprintf("/v1/users/user-%d/opt-outs/%s", i, soakType), nil)
	}
	var members []string
	for _, i := range lobbyUsers() {
		members = append(members, fmt.Sprint("user-", i))
	}
	s.mustBe(201, nil, "POST", "/v1/chats", map[string]any{"id": "lobby", "creator": members[0], "members": members})
	for _, i := range starUsers() {
		s.mustBe(201, nil, "PUT", fmt.Sprintf("/v1/users/user-%d/contacts/star", i), map[string]string{"relationship": "contact"})
		s.mustBe(204, nil, "PUT", fmt.Sprintf("/v1/users/user-%d/topics/star", i), nil)
	}
	// P1, P4: types and settings that were read at most 1 s ago may still be used.
	<-time.After(2 * time.Second)
	for n := range 4 {
		s.work("post", n, 700*time.Millisecond, func(r *rand.Rand, i int) { p.post(r, fmt.Sprintf("p%d-%d", n, i)) })
	}
	s.work("cancel", 0, 700*time.Millisecond, p.cancel)
	s.work("leave", 0, 500*time.Millisecond, p.leave)
	s.work("register", 0, 2*time.Second, p.register)
	return p
}

func lobbyUsers() []int { return numbers(soakUsers-followers-lobby, lobby) }
func starUsers() []int  { return numbers(soakUsers-followers, followers) }

// numbers are n consecutive numbers.
func numbers(first, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = first + i
	}
	return out
}

// post posts one event, or a batch.
func (p *pushTraffic) post(r *rand.Rand, key string) {
	it := &posting{began: time.Now()}
	path, body := "/v1/events", any(nil)
	switch kind := r.IntN(20); {
	case kind < 4:
		var all []any
		for n := range 2 + r.IntN(12) {
			all = append(all, it.event(fmt.Sprint(key, ".", n), []int{r.IntN(soakUsers)}, nil))
		}
		path, body = "/v1/events/batch", map[string]any{"events": all}
	case kind == 4:
		body = it.event(key, starUsers(), map[string]any{[]string{"contacts_of", "topic"}[r.IntN(2)]: "star"})
	case kind == 5:
		body = it.event(key, lobbyUsers(), map[string]any{"chat": "lobby"})
	case kind == 6: // more users than a part has
		body = it.event(key, r.Perm(soakUsers)[:110+r.IntN(150)], nil)
	case kind == 7:
		later := it.event(key, []int{r.IntN(soakUsers)}, nil)
		it.schedule(r, later)
		body = later
	case kind < 10:
		body = it.event(key, r.Perm(soakUsers)[:2+r.IntN(20)], nil)
	default:
		body = it.event(key, []int{r.IntN(soakUsers)}, nil)
	}
	p.accept(r, it, path, body, key)
}

// event adds an event to those of the call; without an audience it is for the users.
func (it *posting) event(key string, users []int, audience map[string]any) map[string]any {
	it.events = append(it.events, soakEvent{key: key, users: users})
	if audience == nil {
		var names []string
		for _, user := range users {
			names = append(names, fmt.Sprint("user-", user))
		}
		audience = map[string]any{"users": names}
	}
	return map[string]any{"type": soakType, "audience": audience, "data": map[string]string{"post": key}}
}

// accept makes the call: mostly until there is an answer, as a good client does, and sometimes only
// once. Some calls are repeated although they were answered.
func (p *pushTraffic) accept(r *rand.Rand, it *posting, path string, body any, key string) {
	call, got := p.s.insist, reply{}
	if r.IntN(10) == 0 {
		call = p.s.once
	}
	got, ids := p.ids(r, call, path, body, key)
	it.state = got.outcome
	if got.outcome == answered && got.status != 202 {
		p.s.failf("post %s: %d %s", key, got.status, got.text)
		return
	}
	if got.outcome == answered {
		for i := range it.events {
			it.events[i].id = ids[i]
		}
		p.s.count("events accepted", len(ids))
		if r.IntN(10) == 0 {
			if again, second := p.ids(r, p.s.insist, path, body, key); again.status != 202 || !slices.Equal(ids, second) {
				p.s.failf("post %s: first %v, then %d %v", key, ids, again.status, second)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.postings = append(p.postings, it)
}

// ids posts events and returns their ids.
func (p *pushTraffic) ids(r *rand.Rand, call func(*rand.Rand, any, string, string, any, ...string) reply, path string, body any, key string) (reply, []string) {
	var out struct {
		ID    string
		Items []struct{ ID string }
	}
	got := call(r, &out, "POST", path, body, "Idempotency-Key", key)
	if out.ID != "" {
		return got, []string{out.ID}
	}
	var ids []string
	for _, item := range out.Items {
		ids = append(ids, item.ID)
	}
	return got, ids
}

// How long it may take until an opt-out that was answered has an effect. Settings that were read at most
// 1 s ago are used (P4). Redis was told before the answer, or else the call was refused. If a fail-over
// loses that, Redis is told again (P10).
const (
	showsWithin  = 2 * time.Second
	mendedWithin = 10 * time.Second
)

// leave opts a leaver out, or in again.
func (p *pushTraffic) leave(r *rand.Rand, _ int) {
	user := soakOptedOut + r.IntN(soakLeavers-soakOptedOut)
	path := fmt.Sprintf("/v1/users/user-%d/opt-outs/%s", user, soakType)
	p.mu.Lock()
	before := p.left[user]
	p.mu.Unlock()
	if n := len(before); n > 0 && before[n-1].back.IsZero() {
		before[n-1].back = time.Now()
		p.s.want(r, nil, []int{204}, "DELETE", path, nil)
		return
	}
	asked := time.Now()
	if !p.s.want(r, nil, []int{204}, "PUT", path, nil) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left[user] = append(before, absence{asked: asked, answered: time.Now()})
}

// absent reports whether a user had opted out when an event was posted, and not in again
// when it arrived.
func (p *pushTraffic) absent(user int, posted, arrived time.Time) bool {
	return slices.ContainsFunc(p.left[user], func(a absence) bool {
		shows := a.answered.Add(showsWithin)
		if p.s.faultsAround(a.asked, a.answered.Add(time.Second)) != "" {
			shows = a.answered.Add(mendedWithin)
		}
		return posted.After(shows) && (a.back.IsZero() || arrived.Before(a.back))
	})
}

// register brings a device back that a 410 may have taken.
func (p *pushTraffic) register(r *rand.Rand, _ int) {
	user := soakLeavers + r.IntN(soakFleeting-soakLeavers)
	p.s.want(r, nil, []int{200, 201}, "PUT", fmt.Sprintf("/v1/users/user-%d/devices/%s", user, deviceToken(user)),
		map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "production"})
}

// check compares the postings with what reached the devices and with the reports.
func (p *pushTraffic) check() {
	var missing []string
	ok := p.s.eventually(3*time.Minute, "every accepted event reaches its devices", func() bool {
		missing = p.missing(p.s.sendings())
		return len(missing) == 0
	})
	if !ok {
		p.s.failf("%d notifications are missing, such as %v", len(missing), missing[:min(5, len(missing))])
	}
	p.checkForbidden(p.s.sendings())
	p.checkCancelled()
	p.checkReports()
}

// missing are notifications that were promised and did not arrive. If any notification of a call
// with unknown outcome arrived, all must have arrived.
func (p *pushTraffic) missing(there map[string][]sending) (missing []string) {
	for _, it := range p.postings {
		arrived, lacking := 0, []string{}
		for _, e := range it.events {
			for _, user := range e.users {
				if user < soakFleeting { // not all of them need to arrive
					continue
				}
				if key := pushKey(e.key, deviceToken(user)); len(taken(there[key])) > 0 {
					arrived++
				} else {
					lacking = append(lacking, fmt.Sprintf("%s (%s, posted %s)", key, e.id, clock(it.began)))
				}
			}
		}
		if it.state == answered || it.state == unknown && arrived > 0 {
			missing = append(missing, lacking...)
		}
	}
	return missing
}

// checkForbidden finds notifications that must not have been sent: after an opt-out, before their event was
// due, and of calls that were answered as having no effect.
func (p *pushTraffic) checkForbidden(there map[string][]sending) {
	outcomes := map[outcome]int{}
	for _, it := range p.postings {
		outcomes[it.state]++
		for _, e := range it.events {
			for _, user := range e.users {
				sent := there[pushKey(e.key, deviceToken(user))]
				switch {
				case len(sent) == 0:
				case it.state == nothing:
					p.s.failf("%s was answered as not accepted, and sent", e.key)
				case sent[0].At.Before(e.due):
					p.s.failf("%s was due at %s, and sent at %s", e.key, clock(e.due), clock(sent[0].At))
				case user < soakOptedOut, p.absent(user, it.began, sent[0].At):
					p.s.failf("%s, posted at %s, was sent to user-%d at %s, who had opted out; faults: %s",
						e.key, clock(it.began), user, clock(sent[0].At), p.s.faultsAround(it.began, sent[0].At))
				}
			}
		}
	}
	p.s.count("posts of unknown outcome", outcomes[unknown])
	p.s.count("posts answered as not accepted", outcomes[nothing])
}

// checkReports reads the report of every accepted event: done, everybody counted once.
func (p *pushTraffic) checkReports() {
	var all []soakEvent
	for _, it := range p.postings {
		if it.state == answered {
			all = append(all, it.events...)
		}
	}
	s := p.s
	err := spread(len(all), func(i int) error {
		e, r, got := all[i], rand.New(rand.NewPCG(1, 1)), report{}
		deadline := time.Now().Add(time.Minute)
		for got.State != "done" && time.Now().Before(deadline) {
			got = report{}
			s.want(r, &got, []int{200}, "GET", "/v1/events/"+e.id, nil)
		}
		suppressed := 0
		for _, n := range got.Suppressed {
			suppressed += n
		}
		steady := 0
		for _, user := range e.users {
			if user >= soakFleeting {
				steady++
			}
		}
		// P9: only who lost a device before a process took the event over may count twice.
		twice := got.Notifications + suppressed - got.Recipients
		if got.State != "done" || got.Recipients != len(e.users) || twice < 0 || twice > got.Suppressed["no_device"] ||
			got.Delivered+got.Failed != got.Notifications || got.Delivered < steady || steady == len(e.users) && got.Delivered != steady {
			s.failf("%s (%s) to %d users, %d of them steady: report %+v", e.key, e.id, len(e.users), steady, got)
		}
		return nil
	})
	if err != nil {
		s.failf("%v", err)
	}
}
