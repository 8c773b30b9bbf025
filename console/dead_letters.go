package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"fanfare/api"
)

// letterFilters are the filters of a list of dead letters.
var letterFilters = []string{"kind", "reason", "type", "app", "queue"}

// query is a part of the page's query: the parameters of these names that are set.
func (v *visit) query(names ...string) url.Values {
	out, all := url.Values{}, v.r.URL.Query()
	for _, name := range names {
		if value := all.Get(name); value != "" {
			out.Set(name, value)
		}
	}
	return out
}

// withQuery is a path with a query, if there is one.
func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// more is the link to the next page of a list; "" if this is the last one.
func more(path string, query url.Values, next string) string {
	if next == "" {
		return ""
	}
	query.Set("cursor", next)
	return withQuery(path, query)
}

// group is a group of dead letters and the link that lists it; "" if no filter does.
type group struct {
	api.DeadLetterGroup
	Link string
}

// deadLetters lists dead letters, and their groups as long as no filter is set.
func (v *visit) deadLetters() error {
	var d struct {
		Groups   []group
		Items    []api.DeadLetter
		Filter   url.Values
		More     string
		Payloads bool
	}
	d.Filter, d.Payloads = v.query(letterFilters...), !v.c.o.HidePayloads
	if len(d.Filter) == 0 {
		var groups api.DeadLetterGroups
		if err := v.ask(http.MethodGet, "/v1/dead-letters/groups", nil, &groups); err != nil {
			return err
		}
		for _, g := range groups.Items {
			d.Groups = append(d.Groups, group{g, linkOf(&g)})
		}
	}
	var list api.DeadLetterList
	if err := v.ask(http.MethodGet, withQuery("/v1/dead-letters", v.query(append(letterFilters, "cursor")...)), nil, &list); err != nil {
		return err
	}
	d.Items, d.More = list.Items, more("dead-letters", v.query(letterFilters...), list.Next)
	return v.page("dead_letters", "Dead letters", 0, d)
}

// linkOf is the link to the letters of a group.
func linkOf(g *api.DeadLetterGroup) string {
	if g.Reason == api.DeadLetterRest {
		return ""
	}
	query := url.Values{}
	for i, value := range []string{g.Kind, g.Reason, g.Type, g.App, g.Queue} {
		if value != "" {
			query.Set(letterFilters[i], value)
		}
	}
	return withQuery("dead-letters", query)
}

// The actions on dead letters.
const (
	retryLetters  = "retry"
	deleteLetters = "delete"
)

func isLetterAction(action string) bool { return action == retryLetters || action == deleteLetters }

func errNoAction() error { return refuse(api.CodeNotFound, "there is no such action") }

// askLetters asks whether some dead letters are to be retried or deleted.
func (v *visit) askLetters() error {
	action, ids := v.r.URL.Query().Get("action"), v.r.URL.Query()["id"]
	switch {
	case !isLetterAction(action):
		return errNoAction()
	case len(ids) == 0:
		return refuse(api.CodeValidation, "choose at least one dead letter")
	}
	slices.Sort(ids)
	return v.page("ask_letters", "Dead letters", 0, map[string]any{"Action": action, "IDs": slices.Compact(ids)})
}

// changeLetters retries or deletes some dead letters, one by one, and says what became of them.
func (v *visit) changeLetters() error {
	action, changed, gone := v.r.PostForm.Get("action"), 0, 0
	for _, id := range v.r.PostForm["id"] {
		method, path := http.MethodPost, "/v1/dead-letters/"+url.PathEscape(id)
		switch action {
		case retryLetters:
			path += "/retry"
		case deleteLetters:
			method = http.MethodDelete
		default:
			return errNoAction()
		}
		err := v.ask(method, path, nil, nil)
		p, refused := errors.AsType[*problem](err)
		switch {
		case err == nil:
			changed++
		case refused && (p.Code == api.CodeNotFound || p.Code == api.CodeConflict):
			gone++ // somebody else was faster
		default:
			return err
		}
	}
	return v.page("letters_done", "Dead letters", 0, map[string]any{"Action": action, "Changed": changed, "Gone": gone})
}

// pretty writes JSON over several lines, unless it is nested so deeply that most of them would be blanks.
func pretty(text json.RawMessage) string {
	var out bytes.Buffer
	if indented(text) > 8*len(text)+4096 || json.Indent(&out, text, "", "  ") != nil {
		return string(text)
	}
	return out.String()
}

// indented is about how many bytes JSON has when it is written over several lines.
func indented(text json.RawMessage) int {
	size, depth, quoted := len(text), 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			size += 1 + 2*depth
		case c == ',':
			size += 1 + 2*depth
		case c == '}' || c == ']':
			depth--
			size += 1 + 2*depth
		}
	}
	return size
}
