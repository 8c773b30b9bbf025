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
//	@Description	Sends server-sent events: `event: stock` with the available units of each sku and the sale's state. The first
//	@Description	event has the present state, and every change follows, at most 10 a second. A client that reconnects gets the
//	@Description	present state and needs nothing from before. The stream of a sale that is deleted ends. A stream that was opened with a user token or a ticket ends with
//	@Description	`event: bye`, whose `reason` is `expired` or `revoked`, within 10 s of the end of the token.
//	@Tags			flash sale
//	@ID				streamSale
//	@Produce		text/event-stream
//	@Param			sale	path		string				true	"The sale"	example(spring)
//	@Param			Last-Event-ID	header	string	false	"Accepted and ignored: a stream begins with the present state"
//	@Param			last_event_id	query	string	false	"Accepted and ignored: a stream begins with the present state"
//	@Success		200		{object}	api.StockEvents	"The events, until either side ends them"
//	@Failure		404		{object}	api.Problem			"sale_not_found"
//	@Router			/v1/sales/{sale}/stream [get]
func (s *server) streamSale(ctx context.Context, in *streamSaleRequest, out *web.Stream) error {
	first, cancel := s.web.Briefly(ctx)
	defer cancel()
	watch, err := s.o.Sales.Watch(first, in.Sale)
	if err != nil {
		return err
	}
	defer watch.Stop()
	for {
		if err := out.Await(ctx, watch.Wake()); err != nil {
			return err
		}
		now, fresh := watch.Next()
		if watch.Deleted() {
			return nil
		}
		if !fresh {
			continue
		}
		if err := out.Send(web.StreamEvent{Name: "stock", Data: &now}); err != nil {
			return err
		}
	}
}
