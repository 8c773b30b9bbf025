package handlers

import (
	"context"

	"fanfare/handlers/web"
)

type streamSaleRequest struct {
	Sale      string `path:"sale" validate:"identifier"`
	lastEvent        // has no effect here: a stream begins with the present state
}

// streamSale sends the stock that is available.
//
//	@Summary		Follow a sale
//	@Description	Server-sent events: `event: stock` with what is available of each sku and the sale's state, first as it stands, then at every
//	@Description	change, at most 10 a second. A client that comes back after a cut gets the present state: nothing needs to be made up for.
//	@Description	A stream that a user token or a ticket opened ends with `event: bye` and a `reason`, `expired` or `revoked`, within 10 s of the end of the token.
//	@Tags			flash sale
//	@ID				streamSale
//	@Produce		text/event-stream
//	@Param			sale	path		string				true	"The sale"	example(spring)
//	@Param			Last-Event-ID	header	string	false	"Taken and not needed"
//	@Param			last_event_id	query	string	false	"Taken and not needed"
//	@Success		200		{object}	api.StockEvents	"The events, until either side ends them"
//	@Failure		404		{object}	api.Problem			"sale_not_found"
//	@Router			/v1/sales/{sale}/stream [get]
func (s *server) streamSale(ctx context.Context, in *streamSaleRequest, out *web.Stream) error {
	first, cancel := s.web.Briefly(ctx)
	defer cancel()
	watch, err := s.sales.Watch(first, in.Sale)
	if err != nil {
		return err
	}
	defer watch.Stop()
	for {
		if err := out.Await(ctx, watch.Wake()); err != nil {
			return err
		}
		now, fresh := watch.Next()
		if !fresh {
			continue
		}
		if err := out.Send(web.StreamEvent{Name: "stock", Data: &now}); err != nil {
			return err
		}
	}
}
