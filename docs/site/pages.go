package site

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"fanfare/docs/asset"
)

//go:embed static
var static embed.FS

// pages are all pages and files of the site.
type pages struct {
	files   fs.FS
	places  map[string]string       // of the files of the repository that the site serves
	served  map[string]http.Handler // by the path below /docs/
	llms    http.Handler
	missing http.HandlerFunc
	layout  *template.Template
	list    []*page
}

// page is a document as a page.
type page struct {
	document
	Place    string // its path below /docs/
	Title    string
	Body     template.HTML
	Sections []section
	group    string
	quiet    bool
}

// Name is what links of the menu say.
func (p *page) Name() string {
	if p.Place == "" { // its title is the name of the product
		return "Overview"
	}
	return p.Title
}

// view is what the layout shows.
type view struct {
	*page
	About, Root string
	Menu        []part
	Previous    *entry
	Next        *entry
}

// part is a group of the menu.
type part struct {
	Name    string
	Entries []entry
}

// entry is a link of the menu.
type entry struct {
	Href, Title string
	Current     bool
}

// build makes all pages from the files of the repository. missing answers clients that are no browsers if there is no such
// path.
func build(files fs.FS, missing http.HandlerFunc) (*pages, error) {
	s := &pages{files: files, missing: missing, places: map[string]string{}, served: map[string]http.Handler{}}
	if err := s.place(); err != nil {
		return nil, err
	}
	md := newMarkdown()
	for _, g := range menu() {
		for _, d := range g.docs {
			source, err := fs.ReadFile(files, d.file)
			if err != nil {
				return nil, err
			}
			p := &page{document: d, Place: s.places[d.file], group: g.Name, quiet: g.quiet}
			p.Body, p.Sections, err = convert(md, source, func(link string) (string, string, bool) { return s.target(p.Place, d.file, link) })
			if err != nil || len(p.Sections) == 0 {
				return nil, fmt.Errorf("%s: no page can be made of it: %w", d.file, err)
			}
			p.Title = p.Sections[0].Title
			s.list = append(s.list, p)
			s.served[short(d.file)] = asset.Serve([]byte(s.source(d.file, string(source))), "text/markdown; charset=utf-8")
		}
	}
	return s, s.write()
}

// Files lists the files of the repository that the site serves: the documents of the menu, then pictures and others
// that are beside them.
func Files(repository fs.FS) (names []string, err error) {
	for _, g := range menu() {
		for _, d := range g.docs {
			names = append(names, d.file)
		}
	}
	for _, pattern := range []string{"docs/*", "docs/monitoring/*"} {
		found, err := fs.Glob(repository, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			if enclosed[path.Ext(name)] != "" {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// place gives each file its place, and serves those that are not documents.
func (s *pages) place() error {
	names, err := Files(s.files)
	if err != nil {
		return err
	}
	for _, name := range names {
		if path.Ext(name) == ".md" {
			s.places[name] = place(name)
			continue
		}
		body, err := fs.ReadFile(s.files, name)
		if err != nil {
			return err
		}
		s.places[name] = short(name)
		s.served[short(name)] = asset.Serve(body, enclosed[path.Ext(name)])
	}
	for _, folder := range []string{"docs/spec", "docs/monitoring"} {
		s.places[folder] = short(folder) + "/"
	}
	return nil
}

// write puts the pages into the layout, and makes the files that belong to all pages.
func (s *pages) write() (err error) {
	if s.layout, err = template.ParseFS(static, "static/layout.html"); err != nil {
		return err
	}
	for i, p := range s.list {
		body, err := s.draw(p, i)
		if err != nil {
			return err
		}
		s.served[p.Place] = asset.WithPolicy(asset.Serve(body, "text/html; charset=utf-8"))
	}
	for name, media := range map[string]string{"style.css": "text/css; charset=utf-8", "script.js": "text/javascript; charset=utf-8", "theme.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"} {
		body, err := static.ReadFile("static/" + name)
		if err != nil {
			return err
		}
		s.served[name] = asset.Serve(body, media)
	}
	index, err := s.index()
	if err != nil {
		return err
	}
	s.served["search.json"] = asset.Serve(index, "application/json")
	s.llms = asset.Serve(s.overview(), "text/plain; charset=utf-8")
	return nil
}

// draw puts a page into the layout; at is its index in the list, -1 for none.
func (s *pages) draw(p *page, at int) ([]byte, error) {
	v := view{page: p, About: p.about, Root: root(p.Place)}
	for _, other := range s.list {
		if len(v.Menu) == 0 || v.Menu[len(v.Menu)-1].Name != other.group {
			v.Menu = append(v.Menu, part{Name: other.group})
		}
		last := &v.Menu[len(v.Menu)-1]
		last.Entries = append(last.Entries, s.entry(p, other))
	}
	if at > 0 {
		e := s.entry(p, s.list[at-1])
		v.Previous = &e
	}
	if at >= 0 && at+1 < len(s.list) {
		e := s.entry(p, s.list[at+1])
		v.Next = &e
	}
	var out bytes.Buffer
	err := s.layout.Execute(&out, v)
	return out.Bytes(), err
}

// entry is a link from one page to another.
func (s *pages) entry(from, to *page) entry {
	return entry{Href: relative(from.Place, to.Place), Title: to.Name(), Current: from == to}
}

// found is a section in the search's index.
type found struct {
	Page   int    `json:"p"` // index of its page
	Title  string `json:"h"`
	Anchor string `json:"a,omitempty"` // "" for the begin of the page
	Text   string `json:"x"`
}

// indexed is a page in the search's index.
type indexed struct {
	Place string `json:"path"`
	Title string `json:"title"`
	Quiet bool   `json:"quiet,omitempty"`
}

// index is what the search of the pages looks through.
func (s *pages) index() ([]byte, error) {
	var whole struct {
		Pages    []indexed `json:"pages"`
		Sections []found   `json:"sections"`
	}
	for i, p := range s.list {
		whole.Pages = append(whole.Pages, indexed{p.Place, p.Title, p.quiet})
		for n, part := range p.Sections {
			f := found{Page: i, Title: part.Title, Anchor: part.Anchor, Text: strings.Join(part.text, " ")}
			if n == 0 {
				f.Anchor = ""
			}
			whole.Sections = append(whole.Sections, f)
		}
	}
	return json.Marshal(whole)
}

// overview is llms.txt: the list of documents for programs that read them, in the form of llmstxt.org. Its links are
// relative to the root of the server, and lead to Markdown.
func (s *pages) overview() []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "# fanfare\n\n> A real-time backend for web and mobile products, one Go program with HTTP/JSON in front: push notifications "+
		"(APNs, FCM, Web Push), recent contacts, group chat, flash sales, jobs, locks, values and counters.\n")
	last := ""
	for _, p := range s.list {
		if p.group != last {
			last = p.group
			fmt.Fprintf(&out, "\n## %s\n\n", last)
			if last == "Reference" {
				fmt.Fprintf(&out, "- [OpenAPI document](openapi.json): every call with its fields, answers and errors, and examples\n")
			}
		}
		fmt.Fprintf(&out, "- [%s](docs/%s): %s\n", p.Title, short(p.file), p.about)
	}
	return []byte(out.String())
}
