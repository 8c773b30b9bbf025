package api

import "fmt"

// saleRules refuses a sale that ends before it starts, whose longest hold is shorter than its hold, that
// lists a sku twice, or lists one without its stock or with two numbers for it.
func saleRules(to reporter, r *SaleRequest) {
	if r.StartsAt != nil && r.EndsAt != nil && !r.StartsAt.Before(r.EndsAt.Time) {
		to.ReportError(r.EndsAt, "ends_at", "EndsAt", "after", "starts_at")
	}
	hold := DefaultHold.Milliseconds()
	if r.HoldMS != nil {
		hold = *r.HoldMS
	}
	if r.MaxHoldMS != nil && *r.MaxHoldMS < hold {
		to.ReportError(*r.MaxHoldMS, "max_hold_ms", "MaxHoldMS", "min", fmt.Sprint(hold, ", as hold_ms is"))
	}
	skus := make([]string, len(r.Items))
	for i := range r.Items {
		item := &r.Items[i]
		skus[i] = item.SKU
		switch {
		case item.Stock == nil && item.Total == nil:
			to.ReportError(item.Stock, fmt.Sprintf("items[%d].stock", i), "", "required", "")
		case item.Stock != nil && item.Total != nil && *item.Stock != *item.Total:
			to.ReportError(item.Total, fmt.Sprintf("items[%d].total", i), "", "equal", "stock")
		}
	}
	uniqueSKUs(to, "items", skus)
}

func reservationRules(to reporter, r *ReservationRequest) {
	if len(r.Lines) < 2 {
		return
	}
	skus := make([]string, len(r.Lines))
	for i := range r.Lines {
		skus[i] = r.Lines[i].SKU
	}
	uniqueSKUs(to, "lines", skus)
}

// uniqueSKUs reports each sku that a list repeats.
func uniqueSKUs(to reporter, list string, skus []string) {
	unique(to, map[string]string{}, skus, func(i int) string { return fmt.Sprintf("%s[%d].sku", list, i) })
}
