package web

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
)

// places limits what a process has under way at once: requests, streams and long polls, or bytes of
// long answers. Calls by user tokens can take at most four fifths of the places, so that some are left
// for backends.
type places struct {
	max, perKey int64         // perKey 0: an API key may take all of them
	full        string        // the message when there are no more
	retry       time.Duration // when a caller that was refused may come back
	taken       atomic.Int64

	mu   sync.Mutex
	held map[holder]int64
}

// kind is one kind of call that takes places. perUser is how many places one user may have for such
// calls, over all keys and tokens.
type kind struct {
	places  *places
	name    string // such as "open streams"
	full    string // the message when a user has too few places left
	perUser int64
}

func newKind(p *places, name string, perUser int64) *kind {
	return &kind{p, name, "this user has too many " + name, perUser}
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
	return newKind(p, "requests under way", o.UserMaxInFlight)
}

// longAnswer is the length from which the answer to a read, or what a stream writes at once, counts
// until its client has taken it or a time-out has cut it off. Shorter ones are bounded by the number of
// requests and streams.
const longAnswer = 64 << 10

// newAnswers limits the bytes of long answers. One user may have an eighth of them.
func newAnswers(maxBytes int64) *kind {
	p := &places{max: maxBytes, retry: retrySoon, held: make(map[holder]int64)}
	p.full = "the clients of this server have not read as many answers as it can hold; try again"
	return newKind(p, "bytes of answers that were not read yet", maxBytes/8)
}

// holdAnswer counts an answer, if it is long, until release is called.
func (s *Server) holdAnswer(info *requestInfo, size int) (release func(), err error) {
	if size <= longAnswer {
		return func() {}, nil
	}
	n := int64(size)
	return func() { s.answers.leave(info, n) }, s.answers.enter(info, n)
}

// enter takes n places for a call; leave gives them back and must be called when err is nil.
func (k *kind) enter(info *requestInfo, n int64) error {
	p := k.places
	if p.taken.Add(n) > p.max {
		p.taken.Add(-n)
		return p.refusal(api.CodeOverloaded, p.full)
	}
	claims, holders := k.claims(info)
	err := p.hold(claims[:holders], n)
	if err != nil {
		p.taken.Add(-n)
	}
	return err
}

func (k *kind) leave(info *requestInfo, n int64) {
	k.places.taken.Add(-n)
	claims, holders := k.claims(info)
	k.places.release(claims[:holders], n)
}

// around runs next while there is a place for it. A stream that outlives its handler gives its
// place back by itself.
func (k *kind) around(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r.Context())
		if err := k.enter(info, 1); err != nil {
			fail(w, r, err)
			return
		}
		defer func() {
			if !info.left {
				k.leave(info, 1)
			}
		}()
		next(w, r)
	}
}

// claims lists the holders that a call counts for: the first n of all. It is the same at the call's
// end as at its beginning. It allocates nothing, since it runs twice for every call.
func (k *kind) claims(info *requestInfo) (all [3]claim, n int) {
	add := func(c claim) {
		all[n] = c
		n++
	}
	if info.byUser {
		add(claim{holder{what: "user tokens"}, k.places.max - k.places.max/5, api.CodeOverloaded, k.places.full})
	}
	if info.subject != "" {
		add(claim{holder{k.name, info.subject}, k.perUser, api.CodeRateLimited, k.full})
	}
	if info.key != nil && k.places.perKey > 0 {
		add(claim{holder{"API key", info.key.ID}, k.places.perKey, api.CodeRateLimited, "this API key has too many open streams"})
	}
	return all, n
}

// hold counts n places for every holder, or for none if one of them has too few left.
func (p *places) hold(claims []claim, n int64) error {
	if len(claims) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range claims {
		if p.held[c.holder]+n > c.most {
			return p.refusal(c.code, c.detail)
		}
	}
	for _, c := range claims {
		p.held[c.holder] += n
	}
	return nil
}

func (p *places) release(claims []claim, n int64) {
	if len(claims) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range claims {
		if p.held[c.holder] -= n; p.held[c.holder] == 0 {
			delete(p.held, c.holder)
		}
	}
}

func (p *places) refusal(code api.Code, detail string) error {
	e := api.Errorf(code, "%s", detail)
	e.RetryAfter = p.retry
	return e
}
