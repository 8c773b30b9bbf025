package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
)

// allLetters is the question whether all dead letters that fit a filter are to be retried or deleted.
type allLetters struct {
	Action string
	Filter url.Values
	// Count is how many fit, and AtLeast says that the groups do not tell it: there may be more.
	Count   int64
	AtLeast bool
	// Before is when letters died that nobody has counted, in the form of the routes.
	Before string
	// Changed says that the visitor agreed to another number.
	Changed bool
}

// askAllLetters asks whether all letters that fit are to be retried or deleted. They are frozen by the newest
// of all letters, whose time is one of Redis' clock.
func (v *visit) askAllLetters() error {
	d := allLetters{Action: v.r.URL.Query().Get("action"), Filter: v.query(letterFilters...)}
	if !isLetterAction(d.Action) {
		return errNoAction()
	}
	var newest api.DeadLetterList
	if err := v.ask(http.MethodGet, "/v1/dead-letters?limit=1", nil, &newest); err != nil {
		return err
	}
	for _, letter := range newest.Items {
		d.Before = letter.FailedAt.Add(time.Millisecond).UTC().Format(time.RFC3339Nano)
	}
	var groups api.DeadLetterGroups
	if err := v.ask(http.MethodGet, "/v1/dead-letters/groups", nil, &groups); err != nil {
		return err
	}
	for i := range groups.Items {
		d.add(&groups.Items[i])
	}
	return v.page("all_letters", "Dead letters", 0, d)
}

// add counts a group if the filter chooses it, as the routes do.
func (a *allLetters) add(g *api.DeadLetterGroup) {
	f := a.Filter
	fits := func(name, value string) bool { return f.Get(name) == "" || f.Get(name) == value }
	topic, _, _ := strings.Cut(g.App, "/")
	switch {
	case !fits("kind", g.Kind):
	case f.Get("queue") != "" && g.Kind != api.DeadJob, f.Get("app") != "" && g.Kind == api.DeadJob:
	case fits("reason", g.Reason) && fits("type", g.Type) && (fits("app", g.App) || fits("app", topic)) && fits("queue", g.Queue):
		a.Count += g.Count
	case g.Reason == api.DeadLetterRest:
		a.AtLeast = true
	}
}

// changeAllLetters begins to retry or delete all letters that fit, and shows how far that has come. If they
// are more than the visitor agreed to, it asks again.
func (v *visit) changeAllLetters() error {
	form := v.r.PostForm
	d := allLetters{Action: form.Get("action"), Filter: url.Values{}, Before: form.Get("before"), Changed: true}
	for _, name := range letterFilters {
		if value := form.Get(name); value != "" {
			d.Filter.Set(name, value)
		}
	}
	before, err := api.ParseTime(d.Before)
	expect, notNumber := strconv.ParseInt(form.Get("expect"), 10, 64)
	switch {
	case !isLetterAction(d.Action):
		return errNoAction()
	case err != nil || notNumber != nil:
		return refuse(api.CodeValidation, "the form does not say which letters you saw")
	}
	in := api.DeadLettersRequest{
		Kind: d.Filter.Get("kind"), Reason: d.Filter.Get("reason"), Type: d.Filter.Get("type"), App: d.Filter.Get("app"), Queue: d.Filter.Get("queue"),
		All: len(d.Filter) == 0, Before: &before, Expect: &expect,
	}
	a, err := v.call(http.MethodPost, "/v1/dead-letters/"+d.Action, in)
	if err != nil {
		return err
	}
	var begun api.DeadLettersAccepted
	err = a.decode(&begun)
	if err == nil {
		redirect(v.w, "../operations/"+url.PathEscape(begun.Operation))
		return nil
	}
	if p := asProblem(err); p.Code != api.CodeChanged {
		return err
	}
	if err := json.Unmarshal(a.body.Bytes(), &begun); err != nil { // the refusal, too, has "matched"
		return err
	}
	d.Count = begun.Matched
	return v.write(a.status, "all_letters", v.frame("Dead letters", d))
}
