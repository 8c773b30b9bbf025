package web

import (
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

// RateLimit is how many requests an API key or a user may make in a window. The zero value is no
// limit.
type RateLimit struct {
	Requests int
	Window   time.Duration
}

// UnmarshalText reads the form of FANFARE_RATE_LIMIT: "500/s", "100/m",
// "5000/h"; "" and "off" are no limit.
func (l *RateLimit) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if s == "" || s == "off" {
		*l = RateLimit{}
		return nil
	}
	count, unit, _ := strings.Cut(s, "/")
	n, err := strconv.Atoi(count)
	window := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	if err != nil || n < 1 || n > 1_000_000_000 || window == 0 {
		return fmt.Errorf("%q is not a rate such as 500/s, 100/m or 5000/h", s)
	}
	*l = RateLimit{Requests: n, Window: window}
	return nil
}

// String is the form that UnmarshalText reads.
func (l RateLimit) String() string {
	if l.Requests == 0 {
		return "off"
	}
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[l.Window]
	return fmt.Sprintf("%d/%s", l.Requests, unit)
}

// rates holds a token bucket for each caller, an API key or a user. A bucket first allows the requests
// of a whole window at once, and then the rate. A bucket that was not used during a window is full
// again and may be forgotten, so only callers of the last two windows have one.
type rates struct {
	limit  RateLimit
	name   string   // the quota's name in the headers
	who    string   // the kind of caller that has the quota
	policy []string // the header with the limit, shared by all responses

	mu           sync.Mutex
	newer, older map[string]*rate.Limiter
	begun        time.Time // when the newer window began
}

func newRates(limit RateLimit, name, who string) *rates {
	return &rates{limit: limit, name: name, who: who, policy: []string{fmt.Sprintf(`"%s";q=%d;w=%d`, name, limit.Requests, int(limit.Window.Seconds()))}}
}

func (l *rates) bucket(caller string, now time.Time) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newer == nil || now.Sub(l.begun) > l.limit.Window {
		l.newer, l.older, l.begun = make(map[string]*rate.Limiter), l.newer, now
	}
	b := l.newer[caller]
	if b == nil {
		if b = l.older[caller]; b == nil {
			b = rate.NewLimiter(rate.Limit(float64(l.limit.Requests)/l.limit.Window.Seconds()), l.limit.Requests)
		}
		l.newer[caller] = b
	}
	return b
}

// take spends one request of the caller's quota and puts the rest of the quota into h, as
// draft-ietf-httpapi-ratelimit-headers says.
func (l *rates) take(caller string, now time.Time, h http.Header) error {
	if l.limit.Requests == 0 {
		return nil
	}
	b := l.bucket(caller, now)
	allowed := b.AllowN(now, 1)
	left := math.Max(0, b.TokensAt(now))
	refill := math.Ceil((float64(l.limit.Requests) - left) / float64(b.Limit()))
	h["Ratelimit-Policy"] = l.policy
	h["Ratelimit"] = []string{`"` + l.name + `";r=` + strconv.Itoa(int(left)) + ";t=" + strconv.Itoa(int(refill))}
	if allowed {
		return nil
	}
	e := api.Errorf(api.CodeRateLimited, "this %s may make %s requests", l.who, l.limit)
	e.RetryAfter = max(time.Millisecond, time.Duration((1-left)/float64(b.Limit())*float64(time.Second)))
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
