package handlers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/handlers/web"
)

type listFactsRequest struct {
	Types  string `query:"types" validate:"max=1000"`
	After  string `query:"after" validate:"max=8000"`
	Limit  int    `query:"limit" default:"100" validate:"min=1,max=1000"`
	WaitMS int64  `query:"wait_ms" default:"0" validate:"min=0,max=30000"`
}

// listFacts reads facts.
//
//	@Summary		Read facts
//	@Description	Lists what happened, as far as facts of its type are written (`PUT /v1/facts/types`). Pass `next` as `after` of the next
//	@Description	call; reading changes nothing, so any number of readers have their own positions. Without `after` the list begins with the
//	@Description	oldest facts that are kept, and with `after=now` it has those that happen from now on. Facts of one `key` come in the order in
//	@Description	which they happened; between keys there is no order. A fact has the same `id` whenever it is read: remember what you
//	@Description	have done with the facts behind your last `next`, and a crash makes you neither miss nor repeat one. With `wait_ms` a call
//	@Description	that finds none waits for one. An answer has at most 1 MiB. It may be empty although there are more, if these are of other
//	@Description	types: go on with `next`. `gap` is how many facts, of all types, were dropped before this reader came to them.
//	@Tags			facts
//	@ID				listFacts
//	@Produce		json
//	@Param			types	query		string			false	"Only facts of these types, separated by commas"	example(event.done,notification.failed)
//	@Param			after	query		string			false	"`next` of the list before, or now"
//	@Param			limit	query		int				false	"At most so many facts"			minimum(1)	maximum(1000)	default(100)
//	@Param			wait_ms	query		int				false	"How long to wait for a fact"	minimum(0)	maximum(30000)	default(0)
//	@Success		200		{object}	api.FactList	"The facts; an empty list if there were none"
//	@Failure		422		{object}	api.Problem		"validation_failed"
//	@Router			/v1/facts [get]
func (s *server) listFacts(ctx context.Context, in *listFactsRequest) (*web.Reply[api.FactList], error) {
	var types []string
	if in.Types != "" {
		types = strings.Split(in.Types, ",")
	}
	if err := knownFacts(types); err != nil {
		return nil, err
	}
	var wait context.Context // nil: the call does not wait
	if in.WaitMS > 0 {
		waiting, cancel := s.web.WaitContext(ctx, time.Duration(in.WaitMS)*time.Millisecond)
		defer cancel()
		wait = waiting
	}
	list, err := s.o.Facts.Read(ctx, wait, in.After, types, in.Limit)
	if not := s.web.StillAllowed(ctx); wait != nil && not != nil {
		return nil, not
	}
	if err != nil {
		return nil, err
	}
	return web.OK(list), nil
}

// knownFacts refuses types that no fact has.
func knownFacts(types []string) error {
	var bad []api.FieldError
	for i, t := range types {
		if !slices.Contains(api.FactTypes, t) {
			bad = append(bad, api.FieldError{Field: fmt.Sprintf("types[%d]", i), Rule: "oneof", Message: fmt.Sprintf("%q is not one of %s", t, strings.Join(api.FactTypes, ", "))})
		}
	}
	return api.InvalidFields(bad)
}

type putFactTypesRequest struct{ Body api.FactTypesRequest }

// putFactTypes says of which types facts are written.
//
//	@Summary		Choose the types of facts
//	@Description	Facts are written of these types and of no others. At first there are none, and facts cost nothing. From `since` on none of
//	@Description	these types is missing; until then some are written and some are not. Facts that were written stay until they are 7 days
//	@Description	old, also of a type that is turned off.
//	@Tags			facts
//	@ID				putFactTypes
//	@Accept			json
//	@Produce		json
//	@Param			types	body		api.FactTypesRequest	true	"All types that are to be on"
//	@Success		200		{object}	api.FactTypesSet		"These are on"
//	@Failure		422		{object}	api.Problem				"validation_failed: errors name types"
//	@Router			/v1/facts/types [put]
func (s *server) putFactTypes(ctx context.Context, in *putFactTypesRequest) (*web.Reply[api.FactTypesSet], error) {
	if err := knownFacts(in.Body.Types); err != nil {
		return nil, err
	}
	set, err := s.o.FactSwitch.Put(ctx, in.Body.Types)
	if err != nil {
		return nil, err
	}
	return web.OK(set), nil
}

// getFactTypes tells of which types facts are written.
//
//	@Summary	Read the types of facts that are written
//	@Tags		facts
//	@ID			getFactTypes
//	@Produce	json
//	@Success	200	{object}	api.FactTypesSet	"These are on"
//	@Router		/v1/facts/types [get]
func (s *server) getFactTypes(ctx context.Context, _ *web.Nothing) (*web.Reply[api.FactTypesSet], error) {
	set, err := s.o.FactSwitch.Get(ctx)
	if err != nil {
		return nil, err
	}
	return web.OK(set), nil
}
