package web

import (
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"fanfare/api"
)

// plan says how a request struct is filled. It is made once for each route:
//
//	`path:"user"`                 from the pattern
//	`query:"limit" default:"50"`  from the query: string, integer, or *int64 (nil when absent)
//	`header:"If-Match"`           from a header; a list may come in several lines
//	Body T or *T                  from the JSON body; *T may be left out
//	api.Idempotency               from the Idempotency-Key header
type plan struct {
	params      []param
	body        []int
	optional    bool
	idempotency []int
	subject     [][]int // fields that name the acting user; a user's own name is filled in
	secret      bool    // the reply is secret, so it is never replayed
	anyQuery    bool    // parameters that no field takes are ignored
	message     bool    // it sends a message to others
	many        []int   // a map of which so many entries count as one request of a user
	each        int
}

type param struct {
	index        []int
	source, name string
	fallback     string
}

func planOf(t reflect.Type) *plan {
	p := &plan{}
	for _, f := range reflect.VisibleFields(t) {
		p.addSubject(f)
		switch {
		case f.Type == reflect.TypeFor[api.Idempotency]():
			p.idempotency = f.Index
		case f.Name == "Body":
			p.body, p.optional = f.Index, f.Type.Kind() == reflect.Pointer
		default:
			p.addParam(f)
		}
	}
	return p
}

// addParam adds a field to the plan, by its first tag that names a source.
func (p *plan) addParam(f reflect.StructField) {
	for _, source := range []string{"path", "query", "header"} {
		if name := f.Tag.Get(source); name != "" {
			p.params = append(p.params, param{index: f.Index, source: source, name: name, fallback: f.Tag.Get("default")})
			return
		}
	}
}

// fill sets parameters and returns those of the wrong type. The rules are checked later, with
// the rules of the body.
func (p *plan) fill(r *http.Request, in reflect.Value) []api.FieldError {
	var bad []api.FieldError
	var query url.Values
	if r.URL.RawQuery != "" {
		var err error
		if query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			query = nil // do not use the readable part of a malformed query
			bad = append(bad, api.FieldError{Field: "query", Rule: "query", Message: "is not a well-formed query string"})
		}
		if infoOf(r.Context()).byUser && r.Header["Authorization"] == nil {
			delete(query, "ticket") // the ticket has been used already
		}
		bad = append(bad, p.unknown(query)...)
	}
	for i := range p.params {
		param := &p.params[i]
		value, problem := param.value(r, query)
		if problem == "" && !setParam(in.FieldByIndex(param.index), value) {
			problem = "must be an integer"
		}
		if problem != "" {
			bad = append(bad, api.FieldError{Field: param.name, Rule: "type", Message: problem})
		}
	}
	return bad
}

// unknown refuses parameters that the call does not know, just as fields of a body are refused:
// otherwise a misspelt limit would have no effect.
func (p *plan) unknown(query url.Values) (bad []api.FieldError) {
	if p.anyQuery {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		known := slices.ContainsFunc(p.params, func(one param) bool { return one.source == "query" && one.name == name })
		if !known {
			bad = append(bad, api.FieldError{Field: name, Rule: "type", Message: "is not a parameter of this call"})
		}
	}
	return bad
}

// value finds a parameter's text, or the problem with it.
func (p *param) value(r *http.Request, query url.Values) (value, problem string) {
	var given []string
	switch p.source {
	case "path":
		return pathParam(r, p.name), ""
	case "query":
		given = query[p.name]
	case "header":
		if given = r.Header.Values(p.name); len(given) > 1 {
			given = []string{strings.Join(given, ", ")} // lines of one header are joined, as in RFC 9110 (5.2)
		}
	}
	switch len(given) {
	case 0:
		return p.fallback, ""
	case 1:
		return given[0], ""
	default:
		return "", "must be given once"
	}
}

// pathParam is a parameter as the caller meant it. chi matches the escaped path if there is one,
// and then returns escaped parts.
func pathParam(r *http.Request, name string) string {
	value := infoOf(r.Context()).params.URLParam(name)
	if r.URL.RawPath == "" {
		return value
	}
	plain, err := url.PathUnescape(value)
	if err != nil {
		return value // the rules refuse the remaining %
	}
	return plain
}

func setParam(field reflect.Value, value string) bool {
	if field.Kind() == reflect.String {
		field.SetString(value)
		return true
	}
	if value == "" {
		return true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.ValueOf(&n))
		return err == nil
	}
	field.SetInt(n)
	return err == nil
}

// addSubject adds to the plan the fields that name the acting user: parameters named user, and the
// fields that the body's tag names. It also adds the field with the tag each.
func (p *plan) addSubject(f reflect.StructField) {
	if f.Tag.Get("path") == "user" || f.Tag.Get("query") == "user" {
		p.subject = append(p.subject, f.Index)
	}
	if f.Name != "Body" || f.Type.Kind() != reflect.Struct {
		return
	}
	for _, member := range reflect.VisibleFields(f.Type) {
		index := append(f.Index[:len(f.Index):len(f.Index)], member.Index...)
		if member.Tag.Get("subject") != "" {
			p.subject = append(p.subject, index)
		}
		if each, err := strconv.Atoi(member.Tag.Get("each")); err == nil {
			p.many, p.each = index, each
		}
	}
}

// fillSubject makes sure that a user's request acts for that user: the fields that name the acting
// user must name the caller or be left out.
func (p *plan) fillSubject(in reflect.Value, u *api.User) error {
	for _, index := range p.subject {
		switch field := in.FieldByIndex(index); field.String() {
		case "":
			field.SetString(u.ID)
		case u.ID:
		default:
			return api.Errorf(api.CodeForbidden, "a user token opens only what is its own user's")
		}
	}
	return nil
}

// requests is how many requests a call counts as.
func (p *plan) requests(in reflect.Value) int {
	if p.each == 0 {
		return 1
	}
	return max(1, (in.FieldByIndex(p.many).Len()+p.each-1)/p.each)
}
