package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

// The requests of several calls, by what they name.
type (
	idRequest struct {
		ID string `path:"id" validate:"identifier"`
	}
	idOnceRequest struct {
		ID          string `path:"id" validate:"identifier"`
		Idempotency api.Idempotency
	}
	userRequest struct {
		User string `path:"user" validate:"identifier"`
	}
	userOnceRequest struct {
		User        string `path:"user" validate:"identifier"`
		Idempotency api.Idempotency
	}
	userPageRequest struct {
		User string `path:"user" validate:"identifier"`
		web.Page
	}
	topicRequest struct {
		Topic string `path:"topic" validate:"identifier"`
	}
)

// needsOneOf is for routes of web.AnyKey that are open to keys with one of several scopes. It refuses a caller whose key
// has none of them, naming the first.
func needsOneOf(ctx context.Context, first api.Scope, others ...api.Scope) error {
	for _, scope := range append(others, first) {
		if web.Allows(ctx, scope) {
			return nil
		}
	}
	return api.Errorf(api.CodeForbidden, "this API key lacks the scope %s", first).With("scope", first)
}
