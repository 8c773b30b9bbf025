package web

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"fanfare/api"

	"golang.org/x/time/rate"
)

// RateLimit is how many requests an API key or a user may make in a window, or how many bytes a user
// may send in it. The zero value is no limit.
type RateLimit struct {
	Requests int
	Window   time.Duration
	// Burst is how many requests may come at once after a pause; 0: Requests.
	Burst int
}

// maxRate bounds both numbers of a rate, and longestFill the time in which a bucket fills.
const maxRate, longestFill = 1_000_000_000, 200 * 365 * 24 * time.Hour

// UnmarshalText reads the form of FANFARE_RATE_LIMIT: "500/s", "100/m", "5000/h", and with a burst
// "20/s:100"; "" and "off" are no limit.
func (l *RateLimit) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if s == "" || s == "off" {
		*l = RateLimit{}
		return nil
	}
	requests, burst, hasBurst := strings.Cut(s, ":")
	count, unit, _ := strings.Cut(requests, "/")
	n, err := strconv.Atoi(count)
	window := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	if err != nil || n < 1 || n > maxRate || window == 0 {
		return fmt.Errorf("%q is not a rate such as 500/s, 100/m, 5000/h or 20/s:100", s)
	}
	most := 0
	if hasBurst {
		if most, err = strconv.Atoi(burst); err != nil || most < 1 || most > maxRate || float64(most)/float64(n)*float64(window) > float64(longestFill) {
			return fmt.Errorf("%q has a burst that is not a number from 1 to what the rate gives in 200 years, at most %d", s, maxRate)
		}
	}
	*l = RateLimit{Requests: n, Window: window, Burst: most}
	return nil
}

// String is the form that UnmarshalText reads.
func (l RateLimit) String() string {
	if l.Requests == 0 {
		return "off"
	}
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[l.Window]
	if l.Burst > 0 {
		return fmt.Sprintf("%d/%s:%d", l.Requests, unit, l.Burst)
	}
	return fmt.Sprintf("%d/%s", l.Requests, unit)
}

// rates holds a token bucket for each caller, an API key or a user. A bucket first allows a burst, and
// then the rate. A bucket that was not used for as long as it takes to fill is full again and may be
// forgotten, so only callers of the last two such periods have one.
type rates struct {
	perSecond rate.Limit // 0: no limit
	burst     int
	period    time.Duration // in which an empty bucket fills
	name      string        // the quota's name in the headers
	detail    string        // what a caller that is refused is told
	policy    []string      // the header with the limit, shared by all responses

	mu           sync.Mutex
	newer, older map[string]*rate.Limiter
	begun        time.Time // when the newer window began
}

// newRates makes the buckets of a limit. may says what a caller may do, with %s for the rate.
func newRates(limit RateLimit, name, may string) *rates {
	if limit.Requests == 0 {
		return &rates{}
	}
	l := &rates{name: name, burst: cmp.Or(limit.Burst, limit.Requests)}
	l.detail = fmt.Sprintf(may, RateLimit{Requests: limit.Requests, Window: limit.Window})
	if limit.Burst > 0 {
		l.detail += fmt.Sprintf(", %d at once", limit.Burst)
	}
	l.perSecond = rate.Limit(float64(limit.Requests) / limit.Window.Seconds())
	seconds := float64(l.burst) / float64(l.perSecond)
	l.period = time.Duration(seconds * float64(time.Second))
	l.policy = []string{fmt.Sprintf(`"%s";q=%d;w=%.0f`, name, l.burst, math.Ceil(seconds))}
	return l
}

func (r *rates) bucket(caller string, now time.Time) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newer == nil || now.Sub(r.begun) > r.period {
		r.newer, r.older, r.begun = make(map[string]*rate.Limiter), r.newer, now
	}
	b := r.newer[caller]
	if b == nil {
		if b = r.older[caller]; b == nil {
			b = rate.NewLimiter(r.perSecond, r.burst)
		}
		r.newer[caller] = b
	}
	return b
}

// take spends n requests or bytes of the caller's quota, at most a full one, and puts the rest of the quota into h, as
// draft-ietf-httpapi-ratelimit-headers says.
func (r *rates) take(caller string, n int, now time.Time, h http.Header) error {
	if r.perSecond == 0 {
		return nil
	}
	b := r.bucket(caller, now)
	n = min(n, r.burst)
	allowed := b.AllowN(now, n)
	left := math.Max(0, b.TokensAt(now))
	refill := math.Ceil((float64(r.burst) - left) / float64(r.perSecond))
	h["Ratelimit-Policy"] = r.policy
	h["Ratelimit"] = []string{`"` + r.name + `";r=` + strconv.Itoa(int(left)) + ";t=" + strconv.Itoa(int(refill))}
	if allowed {
		return nil
	}
	e := api.Errorf(api.CodeRateLimited, "%s", r.detail)
	e.RetryAfter = max(time.Millisecond, time.Duration((float64(n)-left)/float64(r.perSecond)*float64(time.Second)))
	return e
}

// bounded runs next with the request's deadline, unless too many requests are being answered.
func (s *Server) bounded(next http.HandlerFunc) http.HandlerFunc {
	return s.requests.around(s.timed(next))
}

// timed runs next with the request's deadline.
func (s *Server) timed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r.Context())
		info.deadline = info.started.Add(s.o.RequestTimeout)
		next(w, r)
	}
}
