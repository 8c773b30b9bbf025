package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

type putCounterRequest struct {
	Counter string `path:"counter" validate:"identifier"`
	Body    api.CounterRequest
}

// putCounter makes a counter.
//
//	@Summary		Put a counter
//	@Description	Makes a counter, or gives one that is there another number and other settings, as a whole. It is never below `min` nor
//	@Description	above `max`. Nothing is added before `starts_at` (409 `not_started`) and from `ends_at` on (410 `ended`), by Redis' clock. With
//	@Description	`idle_ms` the counter is gone after that time without an add that changed it.
//	@Tags			values and counters
//	@ID				putCounter
//	@Accept			json
//	@Produce		json
//	@Param			counter	path		string				true	"The counter"	example(downloads:2026-01)
//	@Param			content	body		api.CounterRequest	true	"The number and the settings"
//	@Success		200		{object}	api.Counter			"Replaced"
//	@Success		201		{object}	api.Counter			"Made"
//	@Failure		429		{object}	api.Problem			"too_many_names, rate_limited"
//	@Router			/v1/counters/{counter} [put]
func (s *server) putCounter(ctx context.Context, in *putCounterRequest) (*web.Reply[api.Counter], error) {
	created, err := s.o.Counters.Put(ctx, in.Counter, &in.Body)
	if err != nil {
		return nil, err
	}
	b := &in.Body
	return web.Put(&api.Counter{Value: *b.Value, Min: b.Min, Max: b.Max, StartsAt: b.StartsAt, EndsAt: b.EndsAt, IdleMS: b.IdleMS, Local: b.Local}, created), nil
}

type counterRequest struct {
	Counter string `path:"counter" validate:"identifier"`
}

// getCounter reads a counter.
//
//	@Summary		Read a counter
//	@Tags			values and counters
//	@ID				getCounter
//	@Produce		json
//	@Param			counter	path		string		true	"The counter"	example(downloads:2026-01)
//	@Success		200		{object}	api.Counter	"The counter"
//	@Failure		404		{object}	api.Problem	"not_found"
//	@Router			/v1/counters/{counter} [get]
func (s *server) getCounter(ctx context.Context, in *counterRequest) (*web.Reply[api.Counter], error) {
	counter, err := s.o.Counters.Get(ctx, in.Counter)
	if err != nil {
		return nil, err
	}
	return web.OK(counter), nil
}

// deleteCounter deletes a counter.
//
//	@Summary		Delete a counter
//	@Description	Deleting a counter that does not exist is 204 as well.
//	@Tags			values and counters
//	@ID				deleteCounter
//	@Param			counter	path	string	true	"The counter"	example(downloads:2026-01)
//	@Success		204		"Is deleted"
//	@Router			/v1/counters/{counter} [delete]
func (s *server) deleteCounter(ctx context.Context, in *counterRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Counters.Delete(ctx, in.Counter)
}

type addToCounterRequest struct {
	Counter     string `path:"counter" validate:"identifier"`
	Idempotency api.Idempotency
	Body        api.CounterAdd
}

// addToCounter adds to a counter.
//
//	@Summary		Add to a counter
//	@Description	Adds `delta`, which may be below 0, in one step. If the counter would leave its bounds, nothing is added and 409 `bounds` has
//	@Description	its present `value`; with `saturate` it stops at the bound instead, and `applied` says how much was added. A server
//	@Description	that was refused may refuse such adds itself for 100 ms, unless they have an Idempotency-Key or the counter has
//	@Description	`"local": "off"`. A counter that was not made before, or is gone, is 404.
//	@Tags			values and counters
//	@ID				addToCounter
//	@Accept			json
//	@Produce		json
//	@Param			counter			path		string				true	"The counter"	example(downloads:2026-01)
//	@Param			Idempotency-Key	header		string				false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			add				body		api.CounterAdd		true	"The number to add"
//	@Success		200				{object}	api.CounterChange	"Is added"
//	@Header			200				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		404				{object}	api.Problem			"not_found"
//	@Failure		409				{object}	api.Problem			"bounds with value, not_started"
//	@Failure		410				{object}	api.Problem			"ended"
//	@Failure		422				{object}	api.Problem			"validation_failed, idempotency_key_reused"
//	@Router			/v1/counters/{counter}/add [post]
func (s *server) addToCounter(ctx context.Context, in *addToCounterRequest) (*web.Reply[api.CounterChange], error) {
	change, again, err := s.o.Counters.Add(ctx, in.Counter, *in.Body.Delta, in.Body.Saturate, in.Idempotency)
	if err != nil {
		return nil, err
	}
	return web.OK(change).Replayed(again), nil
}
