package fcmtest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v4"
)

// claims are what a service account signs.
type claims struct {
	Issuer   string `json:"iss"`
	Scope    string `json:"scope"`
	Audience string `json:"aud"`
	Issued   int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

// Valid implements jwt.Claims; checkClaims checks them.
func (claims) Valid() error { return nil }

// token serves the token endpoint.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked++
	n, bad := s.asked, s.tokenBad
	s.mu.Unlock()
	if bad != nil {
		status, body := bad()
		if status == 0 {
			select {
			case <-r.Context().Done():
			case <-s.Over():
			}
			return
		}
		w.Header().Set("Location", s.URL()+tokenPath)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
		return
	}
	if err := s.checkClaims(r); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(mustJSON(map[string]string{"error": "invalid_grant", "error_description": err.Error()}))
		return
	}
	// About as long as Google's.
	token := fmt.Sprintf("ya29.%d.%s", n, strings.Repeat("t", 1000))
	s.mu.Lock()
	s.tokens[token] = s.Now().Add(s.o.TokenLife)
	s.mu.Unlock()
	_, _ = w.Write(mustJSON(map[string]any{"access_token": token, "expires_in": int(s.o.TokenLife.Seconds()), "token_type": "Bearer"}))
}

// checkClaims verifies the signature and the claims of a request for a token.
func (s *Server) checkClaims(r *http.Request) error {
	if r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.PostFormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
		return errors.New("not a request for a token by signed claims")
	}
	var c claims
	parsed, err := jwt.NewParser(jwt.WithValidMethods([]string{"RS256"})).ParseWithClaims(r.PostFormValue("assertion"), &c,
		func(*jwt.Token) (any, error) { return &s.key.PublicKey, nil })
	if err != nil {
		return fmt.Errorf("verify claims: %w", err)
	}
	a, err := s.account()
	if err != nil {
		return err
	}
	now := s.Now()
	switch {
	case parsed.Header["kid"] != keyID:
		return fmt.Errorf("the key %v is unknown", parsed.Header["kid"])
	case c.Issuer != a.ClientEmail:
		return fmt.Errorf("the issuer %q is unknown", c.Issuer)
	case c.Scope != "https://www.googleapis.com/auth/firebase.messaging":
		return fmt.Errorf("scope %q", c.Scope)
	case c.Audience != s.URL()+tokenPath:
		return fmt.Errorf("audience %q", c.Audience)
	case c.Expires <= now.Unix() || c.Issued > now.Add(time.Minute).Unix() || c.Expires-c.Issued > 3600:
		return errors.New("the claims are not of now, or for more than an hour")
	}
	return nil
}
