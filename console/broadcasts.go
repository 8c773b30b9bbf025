package console

import (
	"net/http"
	"net/url"

	"fanfare/api"
)

// object shows what shows an object, and what came last.
func (v *visit) object() error {
	var d api.LiveObject
	if err := v.ask(http.MethodGet, "/v1/live/"+url.PathEscape(v.r.PathValue("object")), nil, &d); err != nil {
		return err
	}
	return v.page("object", "Object "+d.Object, refreshEvery, d)
}

// findObject goes to the page of an object.
func (v *visit) findObject() error { return v.find("objects", "object") }

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
