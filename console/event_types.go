package console

import (
	"net/http"
	"net/url"

	"fanfare/api"
)

// eventTypes lists the event types with their texts.
func (v *visit) eventTypes() error {
	d := struct {
		api.EventTypeList
		More string
	}{}
	if err := v.ask(http.MethodGet, withQuery("/v1/event-types", v.query("cursor")), nil, &d.EventTypeList); err != nil {
		return err
	}
	d.More = more("event-types", url.Values{}, d.Next)
	return v.page("event_types", "Event types", 0, d)
}

// topics lists the topics with their number of members.
func (v *visit) topics() error {
	d := struct {
		api.TopicList
		More string
	}{}
	if err := v.ask(http.MethodGet, withQuery("/v1/topics", v.query("cursor")), nil, &d.TopicList); err != nil {
		return err
	}
	d.More = more("topics", url.Values{}, d.Next)
	return v.page("topics", "Topics", 0, d)
}
