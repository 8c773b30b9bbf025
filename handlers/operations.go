package handlers

import (
	"context"
	"net/http"
	"strings"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/queue"
)

// getHealth says that the process is alive.
//
//	@Summary		Check that the process is alive
//	@Description	200 as long as the process can answer at all. /readyz reports whether it can do its work.
//	@Tags			operations
//	@ID				getHealth
//	@Produce		json
//	@Success		200	{object}	api.Health	"Alive"
//	@Router			/healthz [get]
func (s *server) getHealth(context.Context, *web.Nothing) (*web.Reply[api.Health], error) {
	return web.OK(&api.Health{Status: "ok"}), nil
}

// getReady says whether the process can do its work.
//
//	@Summary		Check that the process can do its work
//	@Description	Lists each dependency (redis, sql, apns, workers) with its state and latency, and notes that an operator should
//	@Description	know, such as embedded parts or shards that no process serves.
//	@Tags			operations
//	@ID				getReady
//	@Produce		json
//	@Success		200	{object}	api.Readiness	"Ready"
//	@Failure		503	{object}	api.Readiness	"Not ready: send it no requests"
//	@Router			/readyz [get]
func (s *server) getReady(ctx context.Context, _ *web.Nothing) (*web.Reply[api.Readiness], error) {
	state := s.o.Ready(ctx)
	if !state.Ready {
		return web.OK(&state).WithStatus(http.StatusServiceUnavailable), nil
	}
	return web.OK(&state), nil
}

// getMetrics serves the metrics.
//
//	@Summary		Read the metrics
//	@Description	Answers in the Prometheus text format. No label contains a user, a token or a key.
//	@Tags			operations
//	@ID				getMetrics
//	@Produce		plain
//	@Success		200	{string}	string	"Metrics"
//	@Router			/metrics [get]
func (s *server) getMetrics() http.Handler { return s.metrics }

// getOperation shows an operation.
//
//	@Summary		Show an operation
//	@Description	Shows how far work has come that goes on after its call was answered: erasing a user, rebuilding recent contacts, or
//	@Description	retrying or deleting dead letters, which has `matched` and `left` instead of `removed` and `kept`.
//	@Description	An operation is shown to API keys that may begin it, and to keys with the scope `ops:read`. It is kept for 30 days after
//	@Description	it is done, one on dead letters for 24 h, and does not contain the name of a user.
//	@Tags			operations
//	@ID				getOperation
//	@Produce		json
//	@Param			id	path		string			true	"The id that the call answered"
//	@Success		200	{object}	api.Operation	"The operation"
//	@Failure		403	{object}	api.Problem		"forbidden: the key may not begin such an operation and lacks the scope ops:read"
//	@Router			/v1/operations/{id} [get]
func (s *server) getOperation(ctx context.Context, in *idRequest) (*web.Reply[api.Operation], error) {
	read := s.o.Record.Operation
	if _, ok := queue.ParseID(in.ID); ok { // others have UUIDs
		read = s.o.DeadLetters.Operation
	}
	o, err := read(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if need := o.Action.Scope(); !web.Allows(ctx, need) && !web.Allows(ctx, api.ScopeOpsRead) {
		return nil, api.Errorf(api.CodeForbidden, "this API key lacks the scope %s", need).With("scope", need)
	}
	return web.OK(o), nil
}

// listOperations lists operations.
//
//	@Summary		List operations
//	@Description	Lists the operations that are kept, those that began last first, as `GET /v1/operations/{id}` shows them.
//	@Tags			operations
//	@ID				listOperations
//	@Produce		json
//	@Param			limit	query		int					false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string				false	"The `next` of the previous page"
//	@Success		200		{object}	api.OperationList	"A page"
//	@Router			/v1/operations [get]
func (s *server) listOperations(ctx context.Context, in *web.Page) (*web.Reply[api.OperationList], error) {
	after, err := web.OpenCursor(in.Cursor)
	afterDead, afterRecord, both := strings.Cut(after, " ")
	if _, ok := queue.ParseID(afterDead); err == nil && (after != "" && !both || afterDead != "" && !ok || afterRecord != "" && !api.ValidIdentifier(afterRecord)) {
		err = web.BadCursor()
	}
	if err != nil {
		return nil, err
	}
	dead, err := s.o.DeadLetters.Operations(ctx, afterDead, int(in.Limit)+1)
	if err != nil {
		return nil, err
	}
	recorded, err := s.o.Record.Operations(ctx, afterRecord, int(in.Limit)+1)
	if err != nil {
		return nil, err
	}
	list := &api.OperationList{Items: []api.Operation{}}
	for len(list.Items) < int(in.Limit) && len(dead)+len(recorded) > 0 {
		if len(recorded) == 0 || len(dead) > 0 && dead[0].BegunAt.After(recorded[0].BegunAt.Time) {
			list.Items, afterDead, dead = append(list.Items, dead[0]), dead[0].ID, dead[1:]
		} else {
			list.Items, afterRecord, recorded = append(list.Items, recorded[0]), recorded[0].ID, recorded[1:]
		}
	}
	if len(dead)+len(recorded) > 0 {
		list.Next = web.SealCursor(afterDead + " " + afterRecord)
	}
	return web.OK(list), nil
}

// operationPath is where an operation is shown.
func operationPath(id string) string { return "/v1/operations/" + id }
