package webpushtest

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v4"
)

var (
	topicForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
	// reservedName finds the names of RFC 6761 and RFC 6762 that Apple's service refuses in a subject, and names
	// without a dot.
	reservedName = regexp.MustCompile(`(?i)[.@/](localhost|local|invalid|test)\.?($|[/:])|[@/][^./@]+($|[/:])`)
	authForm     = regexp.MustCompile(`^vapid t=([A-Za-z0-9._-]+), ?k=([A-Za-z0-9_-]+)$`)
)

// maxTTL is the longest time to live: four weeks.
const maxTTL = 28 * 24 * 60 * 60

// check applies the rules of push services, and reads the request.
func (s *Server) check(r *http.Request, body []byte, req *Request) (status int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.browsers[r.Host+r.URL.RequestURI()]
	switch {
	case r.ProtoMajor != 2:
		return http.StatusHTTPVersionNotSupported, errors.New(r.Proto)
	case r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, errors.New(r.Method)
	case b == nil:
		return http.StatusNotFound, errors.New("no such subscription")
	case b.ended != 0:
		return b.ended, errors.New("the subscription has ended")
	case r.TLS.ServerName != r.Host:
		return http.StatusMisdirectedRequest, fmt.Errorf("a connection to %s is for no other host", r.TLS.ServerName)
	case len(body) > maxBody:
		return http.StatusRequestEntityTooLarge, fmt.Errorf("%d bytes", len(body))
	case r.ContentLength != int64(len(body)):
		return http.StatusLengthRequired, errors.New("no Content-Length")
	case !slices.Equal(r.Header["Content-Encoding"], []string{"aes128gcm"}):
		return http.StatusUnsupportedMediaType, fmt.Errorf("Content-Encoding %q", r.Header["Content-Encoding"])
	}
	req.Browser = b
	if status, err := s.checkVAPID(r, req); err != nil {
		return status, err
	}
	if err := req.readHeaders(r.Header); err != nil {
		return http.StatusBadRequest, err
	}
	if req.Payload, req.Padding, err = b.open(body); err != nil {
		return http.StatusBadRequest, err
	}
	return 0, nil
}

// readHeaders reads TTL, Urgency and Topic (RFC 8030, 5).
func (req *Request) readHeaders(h http.Header) (err error) {
	ttl, urgency, topic := h["Ttl"], h["Urgency"], h["Topic"]
	if len(ttl) != 1 {
		return fmt.Errorf("TTL is needed once, not %q", ttl)
	}
	if req.TTL, err = strconv.Atoi(ttl[0]); err != nil || req.TTL < 0 || req.TTL > maxTTL {
		return fmt.Errorf("TTL %q", ttl[0])
	}
	if len(urgency) > 1 || len(urgency) == 1 && !slices.Contains([]string{"very-low", "low", "normal", "high"}, urgency[0]) {
		return fmt.Errorf("the header Urgency is %q", urgency)
	}
	if len(topic) > 1 || len(topic) == 1 && !topicForm.MatchString(topic[0]) {
		return fmt.Errorf("the header Topic is %q", topic)
	}
	if req.TTL == 0 && strings.HasSuffix(req.Host, ".notify.windows.com") && h.Get("X-WNS-Cache-Policy") != "no-cache" {
		return errors.New("the service of Windows takes no TTL of 0")
	}
	req.Urgency, req.Topic = h.Get("Urgency"), h.Get("Topic")
	return nil
}

// claims are what a VAPID token says (RFC 8292, 2).
type claims struct {
	Audience string `json:"aud"`
	Expires  int64  `json:"exp"`
	Subject  string `json:"sub"`
}

// Valid implements jwt.Claims; checkVAPID checks them.
func (claims) Valid() error { return nil }

// checkVAPID verifies who sends: the token, and that its key is the one that pages subscribed with.
func (s *Server) checkVAPID(r *http.Request, req *Request) (status int, err error) {
	auth := authForm.FindStringSubmatch(r.Header.Get("Authorization"))
	if auth == nil || len(r.Header["Authorization"]) != 1 {
		return http.StatusUnauthorized, errors.New("no VAPID in Authorization")
	}
	apple := strings.HasSuffix(r.Host, ".push.apple.com")
	if auth[2] != s.public && apple {
		return http.StatusBadRequest, errors.New(`{"reason":"VapidPkHashMismatch"}`)
	}
	if auth[2] != s.public {
		return http.StatusForbidden, errors.New("the subscription is for another application server key")
	}
	var c claims
	if _, err := jwt.NewParser(jwt.WithValidMethods([]string{"ES256"})).ParseWithClaims(auth[1], &c,
		func(*jwt.Token) (any, error) { return &s.key.PublicKey, nil }); err != nil {
		return http.StatusForbidden, fmt.Errorf("verify VAPID: %w", err)
	}
	req.Token, req.Expires = auth[1], time.Unix(c.Expires, 0)
	switch now := s.Now(); {
	case c.Audience != "https://"+r.Host:
		return http.StatusForbidden, fmt.Errorf("audience %q", c.Audience)
	case !req.Expires.After(now) || req.Expires.After(now.Add(24*time.Hour)):
		return http.StatusForbidden, fmt.Errorf("the token ends at %v", req.Expires)
	case !strings.HasPrefix(c.Subject, "mailto:") && !strings.HasPrefix(c.Subject, "https:") || strings.Contains(c.Subject, "localhost"):
		return http.StatusForbidden, fmt.Errorf("subject %q", c.Subject)
	case apple && reservedName.MatchString(c.Subject):
		return http.StatusForbidden, errors.New(`{"reason":"BadJwtToken"}`)
	}
	return 0, nil
}
