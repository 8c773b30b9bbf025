// Package session is an example of what a backend does for its page, docs/user-access.html: it
// gives the page's user a token and a ticket of fanfare. Copy it; it needs only the standard library.
package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// Backend answers POST /session. Its fields must not change while it serves.
type Backend struct {
	// Fanfare is the address at which this backend calls fanfare, such as http://fanfare.internal.
	Fanfare string
	// Public is the address at which pages call fanfare, such as https://fanfare.example.com. The
	// page's origin has to be in fanfare's FANFARE_ALLOWED_ORIGINS.
	Public string
	// Key is an API key with the scope `tokens`. It never leaves the backend.
	Key string
	// User says who is logged in, by your own cookie; "": nobody.
	User func(*http.Request) string
}

// Handler is the handler of POST /session. Mount it in the origin that serves the page: it refuses
// calls by pages of other origins, which would use the cookie of your user.
func (b *Backend) Handler() http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(b.answer))
}

// answer makes a token for the logged-in user, and with it a ticket for one stream.
func (b *Backend) answer(w http.ResponseWriter, r *http.Request) {
	user := b.User(r)
	if user == "" {
		http.Error(w, "log in first", http.StatusUnauthorized)
		return
	}
	var token struct{ Token string }
	var ticket struct{ Ticket string }
	path := "/v1/users/" + url.PathEscape(user)
	// The scopes are what the page needs, and no more. It asks for its next session when the token has
	// expired; a short life bounds what a stolen token is worth.
	wanted := map[string]any{"scopes": []string{"chat", "buy"}, "ttl_seconds": 900}
	err := b.post(r.Context(), path+"/tokens", b.Key, wanted, &token)
	if err == nil {
		err = b.post(r.Context(), path+"/tickets", token.Token, struct{}{}, &ticket)
	}
	if err != nil {
		slog.ErrorContext(r.Context(), "no session", "user", user, "error", err)
		http.Error(w, "try again", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store") // the answer is a secret
	_ = json.NewEncoder(w).Encode(map[string]string{"fanfare": b.Public, "user": user, "token": token.Token, "ticket": ticket.Ticket})
}

// post calls fanfare and decodes what it made. Its error has fanfare's problem, for your log.
func (b *Backend) post(ctx context.Context, path, bearer string, body, made any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.Fanfare+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+bearer)
	client := http.Client{Timeout: 10 * time.Second} // how long the page waits when fanfare is away
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil && resp.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%s: %s", path, answer)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, made)
}
