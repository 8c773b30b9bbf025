package console

import (
	"net/http"
	"net/url"
	"strings"

	"fanfare/api"
)

// events lists events.
func (v *visit) events() error {
	query := v.query("type", "state", "failed")
	d := struct {
		api.EventList
		Filter url.Values
		States []api.EventState
		More   string
		// Due and those after it tell which columns have anything to show.
		Due, Expired, Cancelled, Superseded bool
	}{Filter: query, States: []api.EventState{
		api.EventScheduled, api.EventQueued, api.EventTargeting, api.EventSending, api.EventDone, api.EventExpired, api.EventCancelled, api.EventSuperseded,
	}}
	if err := v.ask(http.MethodGet, withQuery("/v1/events", v.query("type", "state", "failed", "cursor")), nil, &d.EventList); err != nil {
		return err
	}
	for _, e := range d.Items {
		d.Due, d.Expired, d.Cancelled = d.Due || e.SendAt != nil, d.Expired || e.Expired > 0, d.Cancelled || e.Cancelled > 0
		d.Superseded = d.Superseded || e.Superseded > 0
	}
	d.More = more("events", query, d.Next)
	return v.page("events", "Events", 0, d)
}

// eventPath is the route of the page's event.
func (v *visit) eventPath() string { return "/v1/events/" + url.PathEscape(v.r.PathValue("id")) }

// event shows the report of an event, and the first of its notifications that failed.
func (v *visit) event() error {
	var d struct {
		api.EventReport
		Failures api.EventNotificationList
	}
	if err := v.ask(http.MethodGet, v.eventPath(), nil, &d.EventReport); err != nil {
		return err
	}
	if d.Failed > 0 {
		if err := v.ask(http.MethodGet, v.eventPath()+"/notifications?state=failed&limit="+firstFailures, nil, &d.Failures); err != nil {
			return err
		}
	}
	refresh := refreshEvery
	if over(d.State) && d.State != api.EventCancelled { // its unsent notifications are counted one by one
		refresh = 0
	}
	return v.page("event", "Event "+d.ID, refresh, d)
}

// firstFailures is how many notifications that failed the page of an event shows.
const firstFailures = "10"

// failures lists the notifications of an event that failed.
func (v *visit) failures() error {
	d := struct {
		api.EventNotificationList
		ID, More string
	}{ID: v.r.PathValue("id")}
	query := v.query("cursor")
	query.Set("state", string(api.NotificationFailed))
	if err := v.ask(http.MethodGet, withQuery(v.eventPath()+"/notifications", query), nil, &d.EventNotificationList); err != nil {
		return err
	}
	d.More = more("events/"+url.PathEscape(d.ID)+"/failed", url.Values{}, d.Next)
	return v.page("failures", "Who failed", 0, d)
}

// over reports whether an event cannot be cancelled any more.
func over(state api.EventState) bool {
	return state == api.EventDone || state == api.EventExpired || state == api.EventCancelled || state == api.EventSuperseded
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

// find goes from a form with the name of something to its page in a folder, and shows the form without a name.
func (v *visit) find(folder, field string) error {
	name := strings.TrimSpace(v.r.URL.Query().Get(field))
	if name == "" {
		capital := func(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
		return v.page("find", capital(folder), 0, map[string]string{"Folder": folder, "Field": field, "Label": capital(field)})
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

// user shows what a user wants and has, and which Live Activities run.
func (v *visit) user() error {
	d := struct {
		api.NotificationSettings
		Activities api.ActivityList
		User       string
		Badge      api.Badge
		Chats      *api.UserChatList // the first of them; nil: the visitor may not see chats
	}{User: v.r.PathValue("user")}
	path := "/v1/users/" + url.PathEscape(d.User)
	if err := v.ask(http.MethodGet, path+"/notification-settings", nil, &d.NotificationSettings); err != nil {
		return err
	}
	if err := v.ask(http.MethodGet, path+"/activities", nil, &d.Activities); err != nil {
		return err
	}
	if err := v.ask(http.MethodGet, path+"/badge", nil, &d.Badge); err != nil {
		return err
	}
	if v.may(api.ScopeChat) {
		if err := v.ask(http.MethodGet, path+"/chats", nil, &d.Chats); err != nil {
			return err
		}
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
