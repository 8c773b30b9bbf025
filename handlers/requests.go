package handlers

import (
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
