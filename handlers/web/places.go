package web

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
)

// places limits the calls that a process has under way at once: requests, or streams and long polls.
// Calls by user tokens can take at most four fifths of the places, so that some are left for backends.
type places struct {
	max, perKey int64         // perKey 0: an API key may take all of them
	full        string        // the message when there are no more
	retry       time.Duration // when a caller that was refused may come back
	taken       atomic.Int64

	mu   sync.Mutex
	held map[holder]int64
}

// kind is one kind of call that takes places. perUser is how many such calls one user may have under
// way, over all keys and tokens.
type kind struct {
	places  *places
	name    string // such as "open streams"
	perUser int64
}

// holder holds places: a user for a kind of call, an API key, or all user tokens together.
type holder struct{ what, name string }

// claim is how many places a holder may have, and the refusal if it wants more.
type claim struct {
	holder
	most   int64
	code   api.Code
	detail string
}

func newRequests(o *Options) *kind {
	p := &places{max: o.MaxInFlight, full: tooMuch, retry: retrySoon, held: make(map[holder]int64)}
	return &kind{p, "requests under way", o.UserMaxInFlight}
}

// enter takes a place for a call; leave gives it back and must be called when err is nil.
func (k *kind) enter(info *requestInfo) error {
	p := k.places
	if p.taken.Add(1) > p.max {
		p.taken.Add(-1)
		return p.refusal(api.CodeOverloaded, p.full)
	}
	err := p.hold(k.claims(info))
	if err != nil {
		p.taken.Add(-1)
	}
	return err
}

func (k *kind) leave(info *requestInfo) {
	k.places.taken.Add(-1)
	k.places.release(k.claims(info))
}

// around runs next while there is a place for it. A stream that outlives its handler gives its
// place back by itself.
func (k *kind) around(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r.Context())
		if err := k.enter(info); err != nil {
			fail(w, r, err)
			return
		}
		defer func() {
			if !info.left {
				k.leave(info)
			}
		}()
		next(w, r)
	}
}

// claims lists the holders that a call counts for. It is the same at the call's end as at its
// beginning.
func (k *kind) claims(info *requestInfo) (all []claim) {
	if info.byUser {
		most := k.places.max - k.places.max/5
		all = append(all, claim{holder{what: "user tokens"}, most, api.CodeOverloaded, k.places.full})
	}
	if info.subject != "" {
		detail := "this user has too many " + k.name
		all = append(all, claim{holder{k.name, info.subject}, k.perUser, api.CodeRateLimited, detail})
	}
	if info.key != nil && k.places.perKey > 0 {
		detail := "this API key has too many open streams"
		all = append(all, claim{holder{"API key", info.key.ID}, k.places.perKey, api.CodeRateLimited, detail})
	}
	return all
}

// hold counts a call for every holder, or for none if one of them has no place left.
func (p *places) hold(claims []claim) error {
	if len(claims) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range claims {
		if p.held[c.holder] >= c.most {
			return p.refusal(c.code, c.detail)
		}
	}
	for _, c := range claims {
		p.held[c.holder]++
	}
	return nil
}

func (p *places) release(claims []claim) {
	if len(claims) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range claims {
		if p.held[c.holder]--; p.held[c.holder] == 0 {
			delete(p.held, c.holder)
		}
	}
}

func (p *places) refusal(code api.Code, detail string) error {
	e := api.Errorf(code, "%s", detail)
	e.RetryAfter = p.retry
	return e
}
