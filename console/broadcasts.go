package console

import (
	"net/http"
	"net/url"

	"fanfare/api"
)

// broadcasts lists the broadcasts with their channels.
func (v *visit) broadcasts() error {
	var d struct {
		api.BroadcastList
		More string
	}
	if err := v.ask(http.MethodGet, withQuery("/v1/broadcasts", v.query("cursor")), nil, &d.BroadcastList); err != nil {
		return err
	}
	d.More = more("broadcasts", url.Values{}, d.Next)
	return v.page("broadcasts", "Broadcasts", refreshEvery, d)
}
