package console

import (
	"net/http"
	"net/url"
	"strings"

	"fanfare/api"
)

// events lists events.
func (v *visit) events() error {
	query := v.query("type", "state")
	d := struct {
		api.EventList
		Filter url.Values
		States []api.EventState
		More   string
	}{Filter: query, States: []api.EventState{
		api.EventScheduled, api.EventQueued, api.EventTargeting, api.EventSending, api.EventDone, api.EventExpired, api.EventCancelled,
	}}
	if err := v.ask(http.MethodGet, withQuery("/v1/events", v.query("type", "state", "cursor")), nil, &d.EventList); err != nil {
		return err
	}
	d.More = more("events", v.query("type", "state"), d.Next)
	return v.page("events", "Events", 0, d)
}

// eventPath is the route of the page's event.
func (v *visit) eventPath() string { return "/v1/events/" + url.PathEscape(v.r.PathValue("id")) }

// event shows the report of an event.
func (v *visit) event() error {
	var report api.EventReport
	if err := v.ask(http.MethodGet, v.eventPath(), nil, &report); err != nil {
		return err
	}
	refresh := refreshEvery
	if over(report.State) && report.State != api.EventCancelled { // its unsent notifications are counted one by one
		refresh = 0
	}
	return v.page("event", "Event "+report.ID, refresh, report)
}

// over reports whether an event cannot be cancelled any more.
func over(state api.EventState) bool {
	return state == api.EventDone || state == api.EventExpired || state == api.EventCancelled
}

// askCancel asks whether an event is to be cancelled.
func (v *visit) askCancel() error {
	var report api.EventReport
	if err := v.ask(http.MethodGet, v.eventPath(), nil, &report); err != nil {
		return err
	}
	return v.page("cancel", "Cancel an event", 0, report)
}

// cancel cancels an event and shows its report.
func (v *visit) cancel() error {
	if err := v.ask(http.MethodPost, v.eventPath()+"/cancel", nil, nil); err != nil {
		return err
	}
	redirect(v.w, "../"+url.PathEscape(v.r.PathValue("id"))+"?done=cancelled")
	return nil
}

// find goes from a form with the name of something to its page.
func (v *visit) find(folder, field string) error {
	name := strings.TrimSpace(v.r.URL.Query().Get(field))
	if name == "" {
		return v.page("find", "Users", 0, nil)
	}
	redirect(v.w, "./"+folder+"/"+url.PathEscape(name))
	return nil
}

// users asks for the name of a user.
func (v *visit) users() error { return v.find("users", "user") }

// findEvent goes to the report of an event, or to a job: the id of a job has a dot, behind its queue.
func (v *visit) findEvent() error {
	switch id := strings.TrimSpace(v.r.URL.Query().Get("id")); {
	case id == "":
		return refuse(api.CodeValidation, "type the id of an event")
	case strings.Contains(id, "."):
		return v.find("jobs", "id")
	}
	return v.find("events", "id")
}

// user shows what a user wants and has.
func (v *visit) user() error {
	d := struct {
		api.NotificationSettings
		User string
	}{User: v.r.PathValue("user")}
	if err := v.ask(http.MethodGet, "/v1/users/"+url.PathEscape(d.User)+"/notification-settings", nil, &d.NotificationSettings); err != nil {
		return err
	}
	return v.page("user", "User "+d.User, 0, d)
}

// testDevice sends a test notification and shows its report.
func (v *visit) testDevice() error {
	var made api.EventAccepted
	path := "/v1/users/" + url.PathEscape(v.r.PathValue("user")) + "/devices/" + url.PathEscape(v.r.PathValue("token")) + "/test"
	if err := v.ask(http.MethodPost, path, nil, &made); err != nil {
		return err
	}
	redirect(v.w, "../../../../events/"+url.PathEscape(made.ID)+"?done=tested")
	return nil
}

// askWhy goes to what became of an event for a user.
func (v *visit) askWhy() error {
	if strings.TrimSpace(v.r.URL.Query().Get("user")) == "" {
		return refuse(api.CodeValidation, "type the name of a user")
	}
	return v.find("users", "user")
}

// why shows what became of an event for a user.
func (v *visit) why() error {
	var d api.UserEvent
	path := "/v1/events/" + url.PathEscape(v.r.PathValue("id")) + "/users/" + url.PathEscape(v.r.PathValue("user"))
	if err := v.ask(http.MethodGet, path, nil, &d); err != nil {
		return err
	}
	return v.page("why", "Why, or why not", 0, d)
}
