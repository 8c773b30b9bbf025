package web

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// etag is the entity tag of a version.
func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// etagOf is the entity tag of a version with a certain body: bodies that differ have different tags.
// As the condition of a change only the version in the tag counts.
func etagOf(version int64, body []byte) string {
	digest := fnv.New64a()
	_, _ = digest.Write(body)
	return fmt.Sprintf(`"%d-%016x"`, version, digest.Sum64())
}

// Tag is an entity tag (RFC 9110, 8.8.3).
type Tag struct {
	Opaque string // the text between the quotes
	Weak   bool
}

// ParseTags reads a list of entity tags, the value of If-Match or If-None-Match
// other than *; ok is false if it is no such list.
func ParseTags(list string) (tags []Tag, ok bool) {
	for {
		list = strings.TrimLeft(list, " \t,") // a list may have empty members
		if list == "" {
			return tags, len(tags) > 0
		}
		rest, weak := strings.CutPrefix(list, "W/")
		rest, opened := strings.CutPrefix(rest, `"`)
		opaque, after, closed := strings.Cut(rest, `"`)
		after = strings.TrimLeft(after, " \t")
		if !opened || !closed || strings.ContainsFunc(opaque, notInTag) || after != "" && after[0] != ',' {
			return nil, false
		}
		tags, list = append(tags, Tag{opaque, weak}), after
	}
}

func notInTag(c rune) bool { return c <= ' ' || c == 0x7f }

// Version is the version that the tag names; 0 if the tag is not one of fanfare's.
func (t Tag) Version() int64 {
	number, digest, long := strings.Cut(t.Opaque, "-")
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil || version <= 0 || strconv.FormatInt(version, 10) != number || long && !lowerHex(digest, 16) {
		return 0
	}
	return version
}

// names reports whether the value of an If-None-Match contains etag. The comparison is weak: W/ makes no
// difference. A malformed value contains nothing.
func names(ifNoneMatch, etag string) bool {
	if strings.TrimSpace(ifNoneMatch) == "*" {
		return true
	}
	tags, _ := ParseTags(ifNoneMatch)
	for _, tag := range tags {
		if `"`+tag.Opaque+`"` == etag {
			return true
		}
	}
	return false
}
