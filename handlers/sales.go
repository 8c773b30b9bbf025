package handlers

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"fanfare/api"
	"fanfare/handlers/web"
)

type putSaleRequest struct {
	Sale string `path:"sale" validate:"identifier"`
	Condition
	Body api.SaleRequest
}

// putSale makes or changes a sale.
//
//	@Summary		Make or change a sale
//	@Description	Makes the sale or replaces it as a whole. `stock` is the total of a sku, including the units that are held or
//	@Description	sold; `total` means the same. So a sale that was read can be sent back changed: `state`, `version`, `available`,
//	@Description	`held`, `sold` and `consistent` have no effect, and `id` must be that of the path. With `If-Match`
//	@Description	(ETags of the versions to replace, or * for any) or `If-None-Match: *` the call is a
//	@Description	compare-and-set: if the version does not match, 412 `version_mismatch` contains the present version, sale and
//	@Description	ETag, so that no second read is needed. Reservations do not change the version. Without either header, a sale
//	@Description	that exists with other content is refused with 409 `conflict`. 409 `bounds` refuses to remove a sku, to change
//	@Description	the number of partitions, and to set a stock below the units that are held or sold. 409 `id_used`: a sale of this id
//	@Description	was deleted after reservations were made in it.
//	@Tags			flash sale
//	@ID				putSale
//	@Accept			json
//	@Produce		json
//	@Param			sale			path		string			true	"The sale"	example(spring)
//	@Param			If-Match		header		string			false	"ETags of the versions to replace, or *"
//	@Param			If-None-Match	header		string			false	"*: only if there is no sale yet; ETags: only if the sale is at none of these versions"
//	@Param			content			body		api.SaleRequest	true	"The sale"
//	@Success		200				{object}	api.Sale		"Was there already: the sale as it is now"
//	@Success		201				{object}	api.Sale		"Made"
//	@Header			200,201			{string}	ETag			"The version and a digest of the answer"
//	@Failure		409				{object}	api.Problem		"conflict, bounds, id_used"
//	@Failure		412				{object}	api.Problem		"version_mismatch, with version and sale"
//	@Router			/v1/sales/{sale} [put]
func (s *server) putSale(ctx context.Context, in *putSaleRequest) (*web.Reply[api.Sale], error) {
	match, err := in.match()
	if err != nil {
		return nil, err
	}
	if id := in.Body.ID; id != "" && id != in.Sale {
		return nil, api.Invalid("id", "equal", "must equal the sale of the path, or be left out")
	}
	sale, created, err := s.o.Sales.Put(ctx, in.Sale, &in.Body, match)
	if err != nil {
		return nil, err
	}
	return web.Put(sale, created).Tagged(sale.Version), nil
}

type listSalesRequest struct {
	State string `query:"state" validate:"omitempty,oneof=upcoming open sold_out ended"`
	web.Page
}

// listSales lists sales.
//
//	@Summary		List sales
//	@Description	Lists the sales on record by id, also those that ended. A page may be short, or even empty, if only some of its sales are
//	@Description	in the state that is asked for: there are more as long as there is `next`. `GET /v1/sales/{sale}` shows a sale's stock.
//	@Tags			flash sale
//	@ID				listSales
//	@Produce		json
//	@Param			state	query		string			false	"Only sales in this state"	Enums(upcoming, open, sold_out, ended)
//	@Param			limit	query		int				false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string			false	"The `next` of the previous page"
//	@Success		200		{object}	api.SaleList	"A page"
//	@Router			/v1/sales [get]
func (s *server) listSales(ctx context.Context, in *listSalesRequest) (*web.Reply[api.SaleList], error) {
	read := func(ctx context.Context, _, after string, limit int) ([]api.ListedSale, error) {
		return s.o.Sales.List(ctx, after, limit)
	}
	items, next, err := web.ReadPage(ctx, in.Page, read, "", func(l *api.ListedSale) string { return l.ID })
	if err != nil {
		return nil, err
	}
	items = slices.DeleteFunc(items, func(l api.ListedSale) bool {
		return l.State == "" || in.State != "" && string(l.State) != in.State
	})
	return web.OK(&api.SaleList{Items: items, Next: next}), nil
}

type deleteSaleRequest struct {
	Sale string `path:"sale" validate:"identifier"`
	Condition
}

// deleteSale deletes a sale.
//
//	@Summary		Delete a sale
//	@Description	Deletes a sale that has not begun, or that has ended. While it sells the answer is 409 `sale_open`. While a hold lives,
//	@Description	or an order is not on record yet, it is 409 `owed`. The orders stay, and `GET /v1/sales/{sale}/orders` still lists
//	@Description	them. The id is free again only if no reservation was ever made in the sale. With `If-Match` a sale of another
//	@Description	version is not deleted. Deleting a sale that does not exist is 204 as well.
//	@Tags			flash sale
//	@ID				deleteSale
//	@Param			sale			path	string	true	"The sale"	example(spring)
//	@Param			If-Match		header	string	false	"ETags of the versions to delete, or *"
//	@Param			If-None-Match	header	string	false	"ETags of versions that are not to be deleted"
//	@Success		204				"Is deleted"
//	@Failure		409				{object}	api.Problem	"sale_open, owed"
//	@Failure		412				{object}	api.Problem	"version_mismatch, with version and sale"
//	@Router			/v1/sales/{sale} [delete]
func (s *server) deleteSale(ctx context.Context, in *deleteSaleRequest) (*web.Reply[web.Nothing], error) {
	match, err := in.match()
	if err != nil {
		return nil, err
	}
	return web.NoContent(), s.o.Sales.Delete(ctx, in.Sale, match)
}

type getSaleRequest struct {
	Sale        string `path:"sale" validate:"identifier"`
	IfNoneMatch string `header:"If-None-Match"`
}

// getSale reads a sale.
//
//	@Summary		Read a sale
//	@Description	For every item, available + held + sold = total. The answer may be up to 100 ms old. `version` counts changes by
//	@Description	PUT and by stock calls, not reservations. The ETag changes with anything in the answer. In `If-Match` only the
//	@Description	version in it counts, so that a reservation between reading and changing does not refuse the change. With
//	@Description	`If-None-Match` an unchanged answer is 304 without a body.
//	@Tags			flash sale
//	@ID				getSale
//	@Produce		json
//	@Param			sale			path		string		true	"The sale"	example(spring)
//	@Param			If-None-Match	header		string		false	"ETags that the caller has, or *"
//	@Success		200				{object}	api.Sale	"The sale"
//	@Success		304				"Nothing has changed"
//	@Header			200,304			{string}	ETag		"The version and a digest of the answer"
//	@Failure		404				{object}	api.Problem	"sale_not_found"
//	@Router			/v1/sales/{sale} [get]
func (s *server) getSale(ctx context.Context, in *getSaleRequest) (*web.Reply[api.Sale], error) {
	sale, err := s.o.Sales.Sale(ctx, in.Sale)
	if err != nil {
		return nil, err
	}
	return web.OK(sale).Tagged(sale.Version).UnlessMatched(in.IfNoneMatch), nil
}

type postStockRequest struct {
	Sale string `path:"sale" validate:"identifier"`
	Condition
	Idempotency api.Idempotency
	Body        api.StockRequest
}

// postStock adds to a sku's stock or takes from it.
//
//	@Summary		Add or take stock
//	@Description	Adds `delta`, which may be negative, to the total of a sku. A sale that was sold out sells again within 100 ms
//	@Description	on every server. A change that would take the total below the units that are held or sold is refused with 409
//	@Description	`bounds` and changes nothing.
//	@Tags			flash sale
//	@ID				postStock
//	@Accept			json
//	@Produce		json
//	@Param			sale			path		string				true	"The sale"	example(spring)
//	@Param			If-Match		header		string				false	"ETags of the versions to change, or *"
//	@Param			Idempotency-Key	header		string				false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			change			body		api.StockRequest	true	"The change"
//	@Success		200				{object}	api.SaleItem		"The item as it is now"
//	@Header			200				{string}	ETag				"The version"
//	@Header			200				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		404				{object}	api.Problem			"sale_not_found"
//	@Failure		409				{object}	api.Problem			"bounds"
//	@Failure		412				{object}	api.Problem			"version_mismatch, with version and sale"
//	@Failure		422				{object}	api.Problem			"validation_failed (an unknown sku, a total above 2^53 - 1), idempotency_key_reused"
//	@Router			/v1/sales/{sale}/stock [post]
func (s *server) postStock(ctx context.Context, in *postStockRequest) (*web.Reply[api.SaleItem], error) {
	match, err := in.match()
	if err != nil {
		return nil, err
	}
	change, err := s.o.Sales.AddStock(ctx, in.Sale, &in.Body, match, in.Idempotency)
	if err != nil {
		return nil, err
	}
	return web.OK(&change.Item).Version(change.Version).Replayed(change.Replayed), nil
}

type listOrdersRequest struct {
	Sale string `path:"sale" validate:"identifier"`
	web.Page
}

// listOrders lists a sale's orders.
//
//	@Summary		List a sale's orders
//	@Description	Lists the confirmed reservations that are on record, oldest first. A row follows its confirmation within
//	@Description	moments; `/v1/stats` shows how many rows are still to be written. A sale that was deleted still has its orders.
//	@Tags			flash sale
//	@ID				listOrders
//	@Produce		json
//	@Param			sale	path		string			true	"The sale"	example(spring)
//	@Param			limit	query		int				false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string			false	"The `next` of the previous page"
//	@Success		200		{object}	api.OrderList	"A page"
//	@Failure		404		{object}	api.Problem		"sale_not_found"
//	@Router			/v1/sales/{sale}/orders [get]
func (s *server) listOrders(ctx context.Context, in *listOrdersRequest) (*web.Reply[api.OrderList], error) {
	at, err := openOrderCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	limit := int(in.Limit)
	items, err := s.o.Sales.Orders(ctx, in.Sale, at, limit+1)
	if err != nil {
		return nil, err
	}
	list := &api.OrderList{Items: items}
	if len(items) > limit {
		last := items[limit-1]
		list.Items = items[:limit]
		list.Next = web.SealCursor(strconv.FormatInt(last.CreatedAt.UnixMilli(), 10) + " " + last.Reservation)
	}
	return web.OK(list), nil
}

// openOrderCursor reads the position at which a page of orders begins.
func openOrderCursor(cursor string) (api.Order, error) {
	text, err := web.OpenCursor(cursor)
	if err != nil || text == "" {
		return api.Order{}, err
	}
	at, reservation, _ := strings.Cut(text, " ")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil || !api.ValidIdentifier(reservation) {
		return api.Order{}, web.BadCursor()
	}
	return api.Order{Reservation: reservation, CreatedAt: api.AtMillis(ms)}, nil
}
