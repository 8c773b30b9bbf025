package console

import (
	"net/http"
	"net/url"
	"time"

	"fanfare/api"
)

// operations lists the operations.
func (v *visit) operations() error {
	var list api.OperationList
	if err := v.ask(http.MethodGet, withQuery("/v1/operations", v.query("cursor")), nil, &list); err != nil {
		return err
	}
	d := struct {
		Items []work
		More  string
	}{More: more("operations", url.Values{}, list.Next)}
	for _, o := range list.Items {
		d.Items = append(d.Items, workOf(&o))
	}
	return v.page("operations", "Operations", refreshEvery, d)
}

// operation shows how far an operation has come.
func (v *visit) operation() error {
	var o api.Operation
	if err := v.ask(http.MethodGet, "/v1/operations/"+url.PathEscape(v.r.PathValue("id")), nil, &o); err != nil {
		return err
	}
	refresh := refreshEvery
	if o.State == api.OperationDone {
		refresh = 0
	}
	return v.page("operation", "Operation", refresh, workOf(&o))
}

// work is an operation and how it goes on.
type work struct {
	api.Operation
	// Whole and Reached are how much there is to do, and how much of it was done; Whole is 0 if nobody knows.
	Whole, Reached int64
	// Rate is how much a running operation has done a second since it began; 0: nobody knows.
	Rate float64
}

func workOf(o *api.Operation) work {
	w := work{Operation: *o}
	if o.Matched == nil || o.Left == nil {
		return w
	}
	if w.Whole, w.Reached = *o.Matched, *o.Matched-*o.Left; o.State == api.OperationDone {
		w.Reached = w.Whole // those that are left could not be retried
	}
	if o.State == api.OperationRunning && o.BegunAt != nil {
		w.Rate = float64(w.Reached) / max(1, time.Since(o.BegunAt.Time).Seconds())
	}
	return w
}
