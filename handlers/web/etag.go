package web

import (
	"strconv"
	"strings"
)

// etag is the entity tag of a version.
func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// ParseETag reads one entity tag. The version is 0 for a tag that is well-formed
// but names no version of ours, such as a weak one; ok is false for what is no
// entity tag at all.
func ParseETag(tag string) (version int64, ok bool) {
	inner, weak := strings.CutPrefix(tag, "W/")
	text, opened := strings.CutPrefix(inner, `"`)
	text, closed := strings.CutSuffix(text, `"`)
	if !opened || !closed || strings.ContainsAny(text, "\" ,\t") || !printable(text) {
		return 0, false
	}
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version <= 0 || weak || etag(version) != tag {
		return 0, true
	}
	return version, true
}
