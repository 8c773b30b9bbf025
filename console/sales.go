package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"fanfare/api"
)

// sales lists the sales.
func (v *visit) sales() error {
	d := struct {
		api.SaleList
		Filter url.Values
		States []api.SaleState
		More   string
	}{Filter: v.query("state"), States: []api.SaleState{api.SaleUpcoming, api.SaleOpen, api.SaleSoldOut, api.SaleEnded}}
	if err := v.ask(http.MethodGet, withQuery("/v1/sales", v.query("state", "cursor")), nil, &d.SaleList); err != nil {
		return err
	}
	d.More = more("sales", v.query("state"), d.Next)
	return v.page("sales", "Sales", 0, d)
}

// bar is the stock of a sku in a chart, in units of the chart.
type bar struct {
	api.SaleItem
	Y, Text, Sold, Held, Available, HeldAt, AvailableAt int64
}

// The measures of the chart of a sale.
const (
	chartWidth = 900
	barHeight  = 40
)

// sale shows the stock of a sale as a chart and a table.
func (v *visit) sale() error {
	d := struct {
		api.Sale
		Bars   []bar
		Height int64
	}{}
	if err := v.ask(http.MethodGet, "/v1/sales/"+url.PathEscape(v.r.PathValue("sale")), nil, &d.Sale); err != nil {
		return err
	}
	for i, item := range d.Items {
		b := bar{SaleItem: item, Y: int64(i)*barHeight + 22, Text: int64(i)*barHeight + 16}
		if item.Total > 0 {
			part := func(units int64) int64 { return int64(float64(units) / float64(item.Total) * chartWidth) }
			b.Sold, b.Held = part(item.Sold), part(item.Held)
			b.Available = min(part(item.Available), chartWidth-b.Sold-b.Held)
			b.HeldAt, b.AvailableAt = b.Sold, b.Sold+b.Held
		}
		d.Bars = append(d.Bars, b)
	}
	d.Height = int64(len(d.Items))*barHeight + 6
	return v.page("sale", "Sale "+d.ID, refreshEvery, d)
}

// changeStock adds to a sku's stock or takes from it, if the sale is still in the version that the
// visitor saw.
func (v *visit) changeStock() error {
	delta, err := strconv.ParseInt(strings.TrimSpace(v.r.PostForm.Get("delta")), 10, 64)
	if err != nil {
		return refuse(api.CodeValidation, "the change must be a whole number, such as 10 or -10")
	}
	in := api.StockRequest{SKU: v.r.PostForm.Get("sku"), Delta: &delta}
	seen, err := v.ifMatch()
	if err != nil {
		return err
	}
	sale := url.PathEscape(v.r.PathValue("sale"))
	if err := v.ask(http.MethodPost, "/v1/sales/"+sale+"/stock", in, nil, seen); err != nil {
		return err
	}
	redirect(v.w, "../"+sale+"?done=stock")
	return nil
}
