package handlers_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fanfare/api"
	"fanfare/store/storetest"
)

// lockModel is a lock in a few lines that are plainly right, beside the real one. Its clients lose answers, so they
// repeat their calls, and stop for longer than their lease.
type lockModel struct {
	t     *rapid.T
	w     *world
	n     int    // of the lock
	state string // free, held, over, done, exhausted
	fails int
	fence int64
	now   *api.LockHold // the present hold, or the last one that nobody has followed
	key   string        // of its acquire
	ended string        // how it ended, "": it lasts
	old   []api.LockHold
	keys  int
}

const modelAttempts = 3

func (m *lockModel) path(call string) string { return fmt.Sprintf("/v1/locks/m%d/%s", m.n, call) }

func TestL1_Model(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		n := 0
		storetest.CheckModel(t, storetest.Sized(100, 20), func(rt *rapid.T) {
			n++
			m := &lockModel{t: rt, w: w, n: n, state: "free"}
			rt.Repeat(map[string]func(*rapid.T){
				"acquire": m.acquire, "repeat": m.repeat, "renew": m.renew, "end": m.end, "over": m.over, "superseded": m.superseded, "look": m.look,
			})
		})
	})
}

func (m *lockModel) post(call, body string, headers ...string) answer {
	return m.w.post(m.path(call), body, headers...)
}

// tries is how often a client makes a call: it may not get the first answers.
func tries(t *rapid.T) int { return 1 + rapid.IntRange(0, 1).Draw(t, "answers lost") }

func (m *lockModel) acquire(t *rapid.T) {
	m.keys++
	key := fmt.Sprint("key-", m.keys)
	if m.state == "over" {
		m.fails++
		m.state = "free"
	}
	before := m.state
	if m.state == "free" && m.fails >= modelAttempts {
		m.state = "exhausted"
	}
	for n := range tries(t) {
		a := m.post("acquire", fmt.Sprintf(`{"lease_ms":3600000,"max_attempts":%d}`, modelAttempts), "Idempotency-Key: "+key)
		switch {
		case m.state == "free", m.state == "held" && m.key == key:
			h := a.hold(m.t)
			if h.Attempt != m.fails+1 || n == 0 && h.Fence <= m.fence || n > 0 && h.Token != m.now.Token {
				m.t.Fatalf("acquired %+v of %+v", h, m)
			}
			if n == 0 {
				m.forget()
			}
			m.state, m.now, m.key, m.ended, m.fence = "held", &h, key, "", h.Fence
		case m.state == "held":
			m.wants(a, "lock_held", fmt.Sprintf(`"attempt":%d`, m.fails+1))
		case m.state == "done":
			m.wants(a, "lock_done", "")
		default: // a repeat of the first is the first
			m.wants(a, "lock_exhausted", fmt.Sprintf(`"first":%v`, before == "free"))
		}
	}
}

// repeat is a repeat of the acquire of the present hold.
func (m *lockModel) repeat(t *rapid.T) {
	if m.state != "held" {
		t.Skip("nobody holds it")
	}
	a := m.post("acquire", fmt.Sprintf(`{"lease_ms":3600000,"max_attempts":%d}`, modelAttempts), "Idempotency-Key: "+m.key)
	if h := a.hold(m.t); h.Token != m.now.Token || a.header.Get("Idempotent-Replayed") != "true" {
		m.t.Fatalf("%s %v of %+v", a.body, a.header, m)
	}
}

func (m *lockModel) wants(a answer, code, more string) {
	if a.status != 409 || !strings.Contains(a.body, `"code":"`+code+`"`) || !strings.Contains(a.body, more) {
		m.t.Fatalf("%d %s of %+v", a.status, a.body, m)
	}
}

// forget makes the last hold one that others have followed.
func (m *lockModel) forget() {
	if m.now != nil {
		m.old = append(m.old, *m.now)
	}
}

func (m *lockModel) tell(call string, h *api.LockHold) answer {
	return m.post(call, `{"token":"`+h.Token+`"}`)
}

func (m *lockModel) renew(t *rapid.T) {
	if m.state != "held" && m.state != "over" {
		t.Skip("nobody holds it")
	}
	if h := m.tell("renew", m.now).hold(m.t); h.Token != m.now.Token || h.LeaseMS != 3_600_000 {
		m.t.Fatalf("renewed %+v of %+v", h, m)
	}
	m.state = "held"
}

func (m *lockModel) end(t *rapid.T) {
	if m.state != "held" && m.state != "over" {
		t.Skip("nobody holds it")
	}
	m.ended = rapid.SampledFrom([]string{"done", "fail", "release"}).Draw(t, "how")
	for range tries(t) {
		if a := m.tell(m.ended, m.now); a.status != 200 {
			m.t.Fatalf("%s: %d %s of %+v", m.ended, a.status, a.body, m)
		}
	}
	m.state = map[string]string{"done": "done", "fail": "free", "release": "free"}[m.ended]
	if m.ended == "fail" {
		m.fails++
	}
}

// over ends the present lease, by hand.
func (m *lockModel) over(t *rapid.T) {
	if m.state != "held" {
		t.Skip("nobody holds it")
	}
	key, redis := fmt.Sprintf("ff:{l:locks:m%d}", m.n), m.w.db.Client()
	parts := strings.Split(redis.Get(context.Background(), key).Val(), ":")
	parts[4] = "1"
	redis.Set(context.Background(), key, strings.Join(parts, ":"), time.Hour)
	m.state = "over"
}

// superseded holders learn that they lost, and change nothing; so do those who end a hold in another way than they did.
func (m *lockModel) superseded(t *rapid.T) {
	all := m.old
	if m.ended != "" {
		all = append(all[:len(all):len(all)], *m.now)
	}
	if len(all) == 0 {
		t.Skip("none")
	}
	h := rapid.SampledFrom(all).Draw(t, "holder")
	for _, call := range []string{"renew", "done", "fail", "release"} {
		if m.ended == call && m.now.Token == h.Token {
			continue
		}
		m.wants(m.tell(call, &h), "lock_lost", "")
	}
}

func (m *lockModel) look(*rapid.T) {
	a := m.w.get(strings.TrimSuffix(m.path(""), "/"))
	want := map[string]string{"over": "free"}[m.state]
	if want == "" {
		want = m.state
	}
	if !strings.Contains(a.body, `"state":"`+want+`"`) || want == "held" && !strings.Contains(a.body, `"attempt":`+strconv.Itoa(m.fails+1)) {
		m.t.Fatalf("%s of %+v", a.body, m)
	}
}
