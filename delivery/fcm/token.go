package fcm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v4"

	"fanfare/delivery/exchange"
)

const (
	// scope is what access tokens are asked for.
	scope = "https://www.googleapis.com/auth/firebase.messaging"
	// claimLife is how long signed claims are valid; Google takes at most an hour.
	claimLife = time.Hour
	// renewBefore is how long before its end a token is renewed.
	renewBefore = 5 * time.Minute
	// fetchEvery is how often the token endpoint is asked at most, and fetchWithin how long it has for
	// its answer.
	fetchEvery  = 5 * time.Second
	fetchWithin = 10 * time.Second
	maxAnswer   = 64 << 10 // bytes of the token endpoint's answer
	maxToken    = 4 << 10  // bytes; a request's headers must hold it
	longestLife = 24 * time.Hour
)

// errEnded says that a token of the endpoint was valid for less than fetchEvery.
var errEnded = errors.New("the access token has ended, and it is too early to ask for another one")

// accessToken lets its bearer send. It never changes.
type accessToken struct {
	bearer string // with "Bearer " in front
	until  time.Time
}

// tokenSource has the access token of a service account. It asks for a new one when the token is used
// in its last minutes, so that others send with the present one meanwhile.
type tokenSource struct {
	account *serviceAccount
	url     string
	client  *http.Client
	now     func() time.Time
	log     *slog.Logger

	mu       sync.Mutex
	current  *accessToken
	tried    time.Time // when the endpoint was last asked
	err      error     // of the last answer
	failures int
	fetching bool
	cancel   context.CancelFunc
	waiting  []func(*accessToken, error)
}

// newTokenSource makes the source of an app's service account. Its requests know no proxy and follow no
// redirect.
func newTokenSource(c *appConfig, o *Options) (*tokenSource, error) {
	tls := exchange.TLS(c.url, c.roots)
	tls.ServerName, tls.NextProtos = "", nil // of the token endpoint
	s := &tokenSource{
		account: c.account, url: c.tokenURL, now: o.Now, log: o.Logger, cancel: func() {},
		client: &http.Client{
			Transport:     &http.Transport{TLSClientConfig: tls, DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       o.TokenTimeout,
		},
	}
	if _, err := s.claims(); err != nil { // a key that cannot sign is refused at once
		return nil, err
	}
	return s, nil
}

// claims are the signed claims that the endpoint exchanges for a token (RFC 7523).
func (s *tokenSource) claims() (string, error) {
	now := s.now()
	t := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
		"iss": s.account.ClientEmail, "scope": scope, "aud": s.url, "iat": now.Unix(), "exp": now.Add(claimLife).Unix(),
	})
	t.Header["kid"] = s.account.KeyID
	signed, err := t.SignedString(s.account.key)
	if err != nil {
		return "", fmt.Errorf("sign claims: %w", err)
	}
	return signed, nil
}

// get calls done with a token that is valid, at once if there is one. Otherwise it calls done when the
// token endpoint has answered. If the endpoint failed a moment ago, it is not asked again.
func (s *tokenSource) get(ctx context.Context, done func(*accessToken, error)) {
	s.mu.Lock()
	now := s.now()
	t, err := s.current, s.err
	valid := t != nil && now.Before(t.until)
	if !s.fetching && (!valid || !now.Before(t.until.Add(-renewBefore))) && now.Sub(s.tried) >= fetchEvery {
		s.fetching, s.tried = true, now
		var fetchContext context.Context
		fetchContext, s.cancel = context.WithCancel(context.WithoutCancel(ctx)) // it serves others, too
		go s.fetch(fetchContext)
	}
	if !valid && s.fetching {
		s.waiting = append(s.waiting, done)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	switch {
	case valid:
		done(t, nil)
	case err != nil:
		done(nil, err)
	default:
		done(nil, errEnded)
	}
}

// refused is called when FCM refused a token. The token is given up, unless it is new.
func (s *tokenSource) refused(t *accessToken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == t && s.now().Sub(s.tried) >= fetchEvery {
		s.current = nil
	}
}

// fetch asks for a token, and passes it or the error to all waiting calls.
func (s *tokenSource) fetch(ctx context.Context) {
	t, err := s.ask(ctx)
	s.mu.Lock()
	waiting := s.waiting
	s.cancel()
	s.fetching, s.waiting, s.err = false, nil, err
	if err == nil {
		s.current, s.failures = t, 0
	} else if s.failures++; s.failures&(s.failures-1) == 0 && ctx.Err() == nil {
		s.log.Warn("no access token for FCM", "address", s.url, "failures", s.failures, "error", err)
	}
	s.mu.Unlock()
	for _, done := range waiting {
		done(t, err)
	}
}

// ask makes one request to the token endpoint.
func (s *tokenSource) ask(ctx context.Context) (*accessToken, error) {
	asked := s.now()
	claims, err := s.claims()
	if err != nil {
		return nil, err
	}
	form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {claims}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("ask for an access token: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask for an access token: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of the token endpoint: %w", err)
	}
	return readToken(answer.StatusCode, body, asked)
}

// readToken reads an answer of the token endpoint (RFC 6749, 5.1 and 5.2).
func readToken(status int, body []byte, asked time.Time) (*accessToken, error) {
	var doc struct {
		Token       string  `json:"access_token"`
		Seconds     float64 `json:"expires_in"`
		Error       string  `json:"error"`
		Description string  `json:"error_description"`
	}
	err := json.Unmarshal(body, &doc)
	switch {
	case status != http.StatusOK:
		return nil, fmt.Errorf("the token endpoint answers %s", exchange.Said(fmt.Sprintf("%d %s %s", status, doc.Error, doc.Description)))
	case err != nil:
		return nil, errors.New("the answer of the token endpoint is not JSON")
	case doc.Token == "" || len(doc.Token) > maxToken || strings.ContainsFunc(doc.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("the answer of the token endpoint has no access_token")
	case doc.Seconds <= 0:
		return nil, errors.New("the answer of the token endpoint has no expires_in")
	}
	life := time.Duration(min(doc.Seconds, longestLife.Seconds()) * float64(time.Second))
	return &accessToken{bearer: "Bearer " + doc.Token, until: asked.Add(life)}, nil
}

// failure is why the last request for a token failed.
func (s *tokenSource) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// close ends a request that is under way.
func (s *tokenSource) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
}
