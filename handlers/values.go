package handlers

import (
	"context"
	"time"

	"fanfare/api"
	"fanfare/handlers/web"
)

type putValueRequest struct {
	Value string `path:"value" validate:"identifier"`
	Condition
	Body api.ValueRequest
}

// putValue makes or replaces a value.
//
//	@Summary		Put a value
//	@Description	Stores any JSON of at most 16 KiB under a name, for `ttl_seconds`, or for good. Without `If-Match` and `If-None-Match`
//	@Description	the call replaces the present value. With one of them it is a compare-and-set in one step: if the condition does not hold,
//	@Description	412 `version_mismatch` has the present `value`, its `version` and its ETag, so that the caller can try again at once.
//	@Description	Versions of a name only rise, also after it was deleted.
//	@Tags			values and counters
//	@ID				putValue
//	@Accept			json
//	@Produce		json
//	@Param			value			path		string				true	"The name"	example(settings:web)
//	@Param			If-Match		header		string				false	"ETags of the versions to replace, or *"
//	@Param			If-None-Match	header		string				false	"*: only if there is none yet; ETags: only if it is at none of these versions"
//	@Param			content			body		api.ValueRequest	true	"The value, and how long it stays"
//	@Success		200				{object}	api.ValueVersion	"Replaced"
//	@Success		201				{object}	api.ValueVersion	"Made"
//	@Header			200,201			{string}	ETag				"The version"
//	@Failure		412				{object}	api.Problem			"version_mismatch, with version and value"
//	@Failure		429				{object}	api.Problem			"too_many_names, rate_limited"
//	@Router			/v1/values/{value} [put]
func (s *server) putValue(ctx context.Context, in *putValueRequest) (*web.Reply[api.ValueVersion], error) {
	match, err := in.match()
	if err != nil {
		return nil, err
	}
	content, err := api.ShortestJSON(in.Body.Value)
	if err != nil {
		return nil, err
	}
	var ttl time.Duration
	if in.Body.TTLSeconds != nil {
		ttl = time.Duration(*in.Body.TTLSeconds) * time.Second
	}
	version, created, err := s.o.Values.Put(ctx, in.Value, content, ttl, match)
	if err != nil {
		return nil, err
	}
	return web.Put(&api.ValueVersion{Version: version}, created).Version(version), nil
}

type getValueRequest struct {
	Value       string `path:"value" validate:"identifier"`
	Version     *int64 `query:"version" validate:"omitnil,min=0,max=9007199254740991"`
	WaitMS      int64  `query:"wait_ms" default:"0" validate:"min=0,max=30000"`
	IfNoneMatch string `header:"If-None-Match"`
}

// getValue reads a value.
//
//	@Summary		Read a value
//	@Description	With `wait_ms` and `version` the call waits until the value is of another version, until it is made if `version` is 0,
//	@Description	or until it is gone, and answers at once when that happens. After `wait_ms` it answers the present value. With
//	@Description	`If-None-Match` an unchanged value is 304 without a body.
//	@Tags			values and counters
//	@ID				getValue
//	@Produce		json
//	@Param			value			path		string		true	"The name"	example(settings:web)
//	@Param			version			query		int64		false	"The version that the caller has; 0: none"	minimum(0)	maximum(9007199254740991)
//	@Param			wait_ms			query		int			false	"How long to wait for another version"	minimum(0)	maximum(30000)	default(0)
//	@Param			If-None-Match	header		string		false	"ETags that the caller has"
//	@Success		200				{object}	api.Value	"The value"
//	@Header			200				{string}	ETag		"The version"
//	@Success		304				"Is unchanged"
//	@Failure		404				{object}	api.Problem	"not_found"
//	@Failure		422				{object}	api.Problem	"validation_failed, also for wait_ms without version"
//	@Router			/v1/values/{value} [get]
func (s *server) getValue(ctx context.Context, in *getValueRequest) (*web.Reply[api.Value], error) {
	value, err := s.readValue(ctx, in)
	if err != nil {
		return nil, err
	}
	return web.OK(value).Version(value.Version).UnlessMatched(in.IfNoneMatch), nil
}

// readValue reads a value, after a wait if the call asks for one.
func (s *server) readValue(ctx context.Context, in *getValueRequest) (*api.Value, error) {
	switch {
	case in.WaitMS == 0:
		return s.o.Values.Get(ctx, in.Value)
	case in.Version == nil:
		return nil, api.Invalid("version", "required", "is required with wait_ms")
	}
	waiting, cancel := s.web.WaitContext(ctx, time.Duration(in.WaitMS)*time.Millisecond)
	defer cancel()
	value, err := s.o.Values.Wait(waiting, in.Value, *in.Version)
	if not := s.web.StillAllowed(ctx); not != nil {
		return nil, not
	}
	return value, err
}

type deleteValueRequest struct {
	Value string `path:"value" validate:"identifier"`
	Condition
}

// deleteValue deletes a value.
//
//	@Summary		Delete a value
//	@Description	Without a condition, deleting a value that does not exist is 204 as well.
//	@Tags			values and counters
//	@ID				deleteValue
//	@Param			value			path	string	true	"The name"	example(settings:web)
//	@Param			If-Match		header	string	false	"ETags of the versions to delete, or *"
//	@Param			If-None-Match	header	string	false	"ETags of versions that are not to be deleted"
//	@Success		204				"Is deleted"
//	@Failure		412				{object}	api.Problem	"version_mismatch, with version and value"
//	@Router			/v1/values/{value} [delete]
func (s *server) deleteValue(ctx context.Context, in *deleteValueRequest) (*web.Reply[web.Nothing], error) {
	match, err := in.match()
	if err != nil {
		return nil, err
	}
	return web.NoContent(), s.o.Values.Delete(ctx, in.Value, match)
}
