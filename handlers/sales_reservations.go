package handlers

import (
	"context"
	"slices"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/stock"
)

type postReservationRequest struct {
	Sale        string `path:"sale" validate:"identifier"`
	Idempotency api.Idempotency
	Body        api.ReservationRequest
}

// postReservation takes units for a user.
//
//	@Summary		Reserve
//	@Description	Reserves all lines or none. The units are held for the sale's `hold_ms`: confirm the reservation before
//	@Description	`expires_at`, or the units are given back automatically. A sale with `hold_ms` 0 sells at once. Refusals are
//	@Description	checked in this order: 404 `sale_not_found`, 409 `not_started` or 410 `ended`, 409 `limit_reached` (with
//	@Description	`remaining`), 409 `sold_out` (with `available`). Only successful answers are kept under an Idempotency-Key. A
//	@Description	user may try 10 times a second.
//	@Tags			flash sale
//	@ID				postReservation
//	@Accept			json
//	@Produce		json
//	@Param			sale			path		string					true	"The sale"	example(spring)
//	@Param			Idempotency-Key	header		string					false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			reservation		body		api.ReservationRequest	true	"The user and the units"
//	@Success		201				{object}	api.Reservation			"Held, or sold"
//	@Header			201				{string}	Location				"The reservation"
//	@Header			201				{string}	Idempotent-Replayed		"true if this is the first answer again"
//	@Failure		404				{object}	api.Problem				"sale_not_found"
//	@Failure		409				{object}	api.Problem				"not_started, limit_reached, sold_out"
//	@Failure		410				{object}	api.Problem				"ended"
//	@Failure		422				{object}	api.Problem				"validation_failed (also an unknown sku), idempotency_key_reused"
//	@Router			/v1/sales/{sale}/reservations [post]
func (s *server) postReservation(ctx context.Context, in *postReservationRequest) (*web.Reply[api.Reservation], error) {
	reservation, replayed, err := s.o.Sales.Reserve(ctx, in.Sale, &in.Body, in.Idempotency)
	if err != nil {
		return nil, err
	}
	return web.Created(reservation).At("/v1/sales/" + in.Sale + "/reservations/" + reservation.ID).Replayed(replayed), nil
}

type listReservationsRequest struct {
	Sale  string `path:"sale" validate:"identifier"`
	User  string `query:"user" validate:"omitempty,identifier"`
	State string `query:"state" validate:"omitempty,oneof=held sold released expired"`
	web.Page
}

// listReservations lists the reservations of a user, or of all users.
//
//	@Summary		List reservations
//	@Description	Lists a user's reservations, newest first. Without `user` it lists those of all users, which needs a key with the scope
//	@Description	`sales`: first those that are not sold, by the end of their holds, and then those that are sold, oldest first, without
//	@Description	`expires_at`. A reservation that changes between two pages may come twice. None is left out, unless it was a hold with
//	@Description	more than an hour left that was released before its turn. Reservations that were released or have expired are listed
//	@Description	for an hour. With `state` a page may be short, or even empty: there are more as long as there is `next`. The cursor of a
//	@Description	user's list is 422 once the reservation at which its page ended is not listed any more.
//	@Tags			flash sale
//	@ID				listReservations
//	@Produce		json
//	@Param			sale	path		string				true	"The sale"	example(spring)
//	@Param			user	query		string				false	"The user; with a user token always its own user"	example(alice)
//	@Param			state	query		string				false	"Only reservations in this state"	Enums(held, sold, released, expired)
//	@Param			limit	query		int					false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string				false	"The `next` of the previous page"
//	@Success		200		{object}	api.ReservationList	"A page"
//	@Failure		403		{object}	api.Problem			"forbidden: the key lacks the scope `sales:buy`, or `sales` without `user`; with a user token also: another user"
//	@Failure		404		{object}	api.Problem			"sale_not_found"
//	@Router			/v1/sales/{sale}/reservations [get]
func (s *server) listReservations(ctx context.Context, in *listReservationsRequest) (*web.Reply[api.ReservationList], error) {
	after, err := web.OpenCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	items, next, err := s.reservations(ctx, in, after)
	return web.OK(&api.ReservationList{Items: items, Next: web.SealCursor(next)}), err
}

func (s *server) reservations(ctx context.Context, in *listReservationsRequest, after string) (items []api.Reservation, next string, err error) {
	state := api.ReservationState(in.State)
	if in.User != "" {
		items, next, err = s.o.Sales.Reservations(ctx, in.Sale, in.User, after, int(in.Limit))
		return slices.DeleteFunc(items, func(r api.Reservation) bool { return state != "" && r.State != state }), next, err
	}
	if !web.Allows(ctx, api.ScopeSales) {
		return nil, "", api.Errorf(api.CodeForbidden, "without user this call needs the scope %s, which this API key lacks", api.ScopeSales).With("scope", api.ScopeSales)
	}
	return s.o.Sales.EveryReservation(ctx, in.Sale, state, after, int(in.Limit))
}

type reservationRequest struct {
	Sale string `path:"sale" validate:"identifier"`
	ID   string `path:"id" validate:"identifier"`
}

// getReservation reads a reservation.
//
//	@Summary	Read a reservation
//	@Tags		flash sale
//	@ID			getReservation
//	@Produce	json
//	@Param		sale	path		string			true	"The sale"	example(spring)
//	@Param		id		path		string			true	"The reservation"
//	@Success	200		{object}	api.Reservation	"The reservation"
//	@Failure	404		{object}	api.Problem		"sale_not_found, not_found"
//	@Router		/v1/sales/{sale}/reservations/{id} [get]
func (s *server) getReservation(ctx context.Context, in *reservationRequest) (*web.Reply[api.Reservation], error) {
	reservation, err := s.o.Sales.Reservation(ctx, in.Sale, in.ID)
	if err != nil {
		return nil, err
	}
	if user := caller(ctx); user != "" && reservation.User != user {
		return nil, stock.ErrNoReservation(in.ID)
	}
	return web.OK(reservation), nil
}

type endReservationRequest struct {
	Sale        string `path:"sale" validate:"identifier"`
	ID          string `path:"id" validate:"identifier"`
	Idempotency api.Idempotency
}

// confirmReservation sells the units that are held.
//
//	@Summary		Confirm a reservation
//	@Description	Turns a held reservation into a sold one and writes its order, even if the database is away at that moment. A
//	@Description	hold can be confirmed until it expires, also after the end of the sale. Confirming again gives the same answer.
//	@Description	A reservation that was released or has expired is refused with 409 `not_held` and its `state`.
//	@Tags			flash sale
//	@ID				confirmReservation
//	@Produce		json
//	@Param			sale			path		string			true	"The sale"	example(spring)
//	@Param			id				path		string			true	"The reservation"
//	@Param			Idempotency-Key	header		string			false	"Kept for 24 h if the call changes something; it is safe to repeat without it, too"	minlength(1)	maxlength(255)
//	@Success		200				{object}	api.Reservation	"Sold"
//	@Header			200				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		404				{object}	api.Problem		"sale_not_found, not_found"
//	@Failure		409				{object}	api.Problem		"not_held"
//	@Failure		422				{object}	api.Problem		"validation_failed, idempotency_key_reused"
//	@Router			/v1/sales/{sale}/reservations/{id}/confirm [post]
func (s *server) confirmReservation(ctx context.Context, in *endReservationRequest) (*web.Reply[api.Reservation], error) {
	reservation, replayed, err := s.o.Sales.End(ctx, stock.EndHold{Sale: in.Sale, ID: in.ID, Sell: true, Owner: caller(ctx), Once: in.Idempotency})
	return web.OK(reservation).Replayed(replayed), err
}

// releaseReservation gives back the units that are held.
//
//	@Summary		Release a reservation
//	@Description	Gives the units back exactly once. Releasing again gives the same answer. A reservation that was sold or has
//	@Description	expired is refused with 409 `not_held` and its `state`.
//	@Tags			flash sale
//	@ID				releaseReservation
//	@Produce		json
//	@Param			sale			path		string			true	"The sale"	example(spring)
//	@Param			id				path		string			true	"The reservation"
//	@Param			Idempotency-Key	header		string			false	"Kept for 24 h if the call changes something; it is safe to repeat without it, too"	minlength(1)	maxlength(255)
//	@Success		200				{object}	api.Reservation	"Released"
//	@Header			200				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		404				{object}	api.Problem		"sale_not_found, not_found"
//	@Failure		409				{object}	api.Problem		"not_held"
//	@Failure		422				{object}	api.Problem		"validation_failed, idempotency_key_reused"
//	@Router			/v1/sales/{sale}/reservations/{id}/release [post]
func (s *server) releaseReservation(ctx context.Context, in *endReservationRequest) (*web.Reply[api.Reservation], error) {
	reservation, replayed, err := s.o.Sales.End(ctx, stock.EndHold{Sale: in.Sale, ID: in.ID, Owner: caller(ctx), Once: in.Idempotency})
	return web.OK(reservation).Replayed(replayed), err
}

type extendReservationRequest struct {
	Sale        string `path:"sale" validate:"identifier"`
	ID          string `path:"id" validate:"identifier"`
	Idempotency api.Idempotency
	Body        api.ExtendRequest
}

// extendReservation moves the end of a hold.
//
//	@Summary		Extend a hold
//	@Description	Lets a hold last `hold_ms` from now, but not longer than the sale's `max_hold_ms` from the making of the reservation,
//	@Description	and never shorter than before. The answer has the `expires_at` that results. In a sale without `max_hold_ms` it stays as it
//	@Description	was. A reservation that is not held any more is refused with 409 `not_held` and its `state`. Not for user tokens.
//	@Tags			flash sale
//	@ID				extendReservation
//	@Accept			json
//	@Produce		json
//	@Param			sale			path		string				true	"The sale"	example(spring)
//	@Param			id				path		string				true	"The reservation"
//	@Param			Idempotency-Key	header		string				false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			hold			body		api.ExtendRequest	true	"How long the hold shall last"
//	@Success		200				{object}	api.Reservation		"Held"
//	@Header			200				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		404				{object}	api.Problem			"sale_not_found, not_found"
//	@Failure		409				{object}	api.Problem			"not_held"
//	@Failure		422				{object}	api.Problem			"validation_failed, idempotency_key_reused"
//	@Router			/v1/sales/{sale}/reservations/{id}/extend [post]
func (s *server) extendReservation(ctx context.Context, in *extendReservationRequest) (*web.Reply[api.Reservation], error) {
	reservation, replayed, err := s.o.Sales.Extend(ctx, stock.ExtendHold{Sale: in.Sale, ID: in.ID, HoldMS: *in.Body.HoldMS, Once: in.Idempotency})
	return web.OK(reservation).Replayed(replayed), err
}
