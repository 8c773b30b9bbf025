package handlers

import (
	"strings"

	"fanfare/api"
	"fanfare/handlers/web"
)

// Condition is the part of a request that makes a change depend on the present state.
type Condition struct {
	IfMatch     string `header:"If-Match"`
	IfNoneMatch string `header:"If-None-Match"`
}

// match reads the headers: each holds ETags or *.
func (c Condition) match() (m api.Match, err error) {
	switch ifMatch, none := strings.TrimSpace(c.IfMatch), strings.TrimSpace(c.IfNoneMatch); {
	case ifMatch != "" && none != "":
		return m, api.Invalid("If-None-Match", "exactly_one", "must not be sent together with If-Match")
	case ifMatch == "*":
		m.Version = api.AnyVersion
	case none == "*":
		m.Absent = true
	case ifMatch != "":
		m.Version = api.NoVersion
		m.Others, err = versions("If-Match", ifMatch, func(t web.Tag) bool { return !t.Weak })
	case none != "":
		m.Except, err = versions("If-None-Match", none, func(web.Tag) bool { return true })
	}
	return m, err
}

// versions reads the versions that a list of entity tags names, limited to the tags that count.
// A tag that is not one of fanfare's is well-formed and names no version.
func versions(header, list string, counts func(web.Tag) bool) ([]int64, error) {
	tags, ok := web.ParseTags(list)
	if !ok {
		return nil, api.Invalid(header, "etag", `must be ETags such as "7" or "7", "8", or *`)
	}
	out := make([]int64, len(tags))
	for i, tag := range tags {
		if out[i] = api.NoVersion; counts(tag) && tag.Version() != 0 {
			out[i] = tag.Version()
		}
	}
	return out, nil
}
