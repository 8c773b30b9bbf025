package site

import (
	"path"
	"regexp"
	"strings"
)

// relative is the way from a page to a path below /docs/, such as "../jobs" from "spec/http" to "jobs". Links are
// relative because a proxy may serve fanfare below a path of its own.
func relative(from, to string) string {
	up := root(from)
	if up == "" && to == "" {
		return "./"
	}
	return up + to
}

// root is the way from a page to /docs/.
func root(from string) string { return strings.Repeat("../", strings.Count(from, "/")) }

// target finds what a link of a file of the repository leads to. A link to a document or to a served file becomes
// a link from the given place; a link to the outside, or within the page, stays. ok is false for a file of the
// repository that the site does not have, which is then named by file.
func (s *pages) target(from, file, link string) (href, named string, ok bool) {
	name, anchor, hasAnchor := strings.Cut(link, "#")
	if name == "" || strings.Contains(name, ":") {
		return link, "", true
	}
	named = path.Join(path.Dir(file), name)
	to, known := s.places[named]
	if !known {
		return "", named, false
	}
	if href = relative(from, to); hasAnchor {
		href += "#" + anchor
	}
	return href, named, true
}

var (
	fenced       = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// source is a document's Markdown as the site serves it: links to other documents lead to their Markdown, which is
// beside it. What the site does not have keeps the path that it has in the repository.
func (s *pages) source(file, text string) string {
	from := short(file)
	links := func(text string) string {
		return markdownLink.ReplaceAllStringFunc(text, func(match string) string {
			link := match[2 : len(match)-1]
			href, named, ok := s.target(from, file, link)
			if !ok {
				return match
			}
			if strings.HasSuffix(named, ".md") {
				href = relative(from, short(named)) + strings.TrimPrefix(link, strings.SplitN(link, "#", 2)[0])
			}
			return "](" + href + ")"
		})
	}
	var out strings.Builder
	end := 0
	for _, at := range fenced.FindAllStringIndex(text, -1) {
		out.WriteString(links(text[end:at[0]]) + text[at[0]:at[1]])
		end = at[1]
	}
	return out.String() + links(text[end:])
}
