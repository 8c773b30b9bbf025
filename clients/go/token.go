package fanfare

import (
	"context"
	"fmt"
)

// tokens keeps the token that all calls share.
type tokens struct {
	fetch func(context.Context) (string, error) // nil: the token is fixed
	turn  chan struct{}                         // holds one value; who takes it may use token
	token string
}

func newTokens(o Options) *tokens {
	t := &tokens{fetch: o.Token, token: o.Key, turn: make(chan struct{}, 1)}
	if t.fetch != nil {
		t.token = ""
	}
	t.turn <- struct{}{}
	return t
}

// get returns the token, and fetches one if there is none. While one call fetches, the others wait.
func (t *tokens) get(ctx context.Context) (string, error) {
	if t.fetch == nil {
		return t.token, nil
	}
	select {
	case <-t.turn:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { t.turn <- struct{}{} }()
	if t.token == "" {
		token, err := t.fetch(ctx)
		if err != nil {
			return "", fmt.Errorf("get a token: %w", err)
		}
		t.token = token
	}
	return t.token, nil
}

// reject drops a token that the server refused, unless there is a newer one already. It is false if no other token
// can be had.
func (t *tokens) reject(ctx context.Context, token string) bool {
	if t.fetch == nil {
		return false
	}
	select {
	case <-t.turn:
	case <-ctx.Done():
		return false
	}
	if t.token == token {
		t.token = ""
	}
	t.turn <- struct{}{}
	return true
}
