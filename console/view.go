package console

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
)

//go:embed templates static
var files embed.FS

// views are the templates of all pages, by name.
type views map[string]*template.Template

// mustViews parses the templates. They are embedded, so that an error can only be a broken build.
func mustViews() views {
	layout := template.Must(template.New("layout.html").Funcs(functions()).ParseFS(files, "templates/layout.html"))
	all := views{}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		if short := strings.TrimSuffix(path.Base(name), ".html"); short != "layout" {
			all[short] = template.Must(template.Must(layout.Clone()).ParseFS(files, name))
		}
	}
	return all
}

// mustFile serves an embedded file, and 304 to browsers that have it.
func mustFile(name, media string) http.Handler {
	body, err := files.ReadFile("static/" + name)
	if err != nil {
		panic(err)
	}
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256(body))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", media)
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
	})
}

// link is an entry of the navigation.
type link struct {
	Href, Name string
	Current    bool
}

// frame is what the layout and every page may show.
type frame struct {
	Title string
	// Root leads from the page to the console's own folder, such as "../../".
	Root string
	// In reports whether the visitor may see data, Open whether the server has no keys, and ReadOnly
	// whether nothing can be changed.
	In, Open, ReadOnly bool
	Key                *api.Key
	Nav                []link
	// Refresh is how often the script reads the page again, in seconds, and Reload how often the
	// browser does it without the script; 0: never.
	Refresh, Reload int
	// Done says what a form did that led here.
	Done string
	// Once makes a form that is sent twice do its work once.
	Once string
	// Ops, Push, Sales, Jobs and Admin tell which forms the visitor may use. Queues: those that pause and resume queues
	// of jobs.
	Ops, Push, Sales, Jobs, Admin, Queues bool
	// Users reports whether the visitor may see events and users, which needs push.
	Users bool
	// SeesJobs reports whether the visitor may see single jobs.
	SeesJobs bool
	Data     any
}

// done has the sentences for what a form did. The query names them, so that a link can show only these.
var done = map[string]string{
	"probed":    "The paused apps of this topic try one notification each.",
	"cancelled": "The event is cancelled. A second from now nothing more of it is sent.",
	"sent":      "The event was accepted. This is its report.",
	"tested":    "The test notification was accepted. This is its report.",
	"stock":     "The stock was changed.",
	"paused":    "The queue is paused: no job of it is claimed until it is resumed.",
	"resumed":   "The queue runs: workers get its jobs.",
	"ended":     "The job is cancelled. A worker that holds it is told when it renews its lease.",
	"replayed":  "The facts after the position are sent.",
	"revoked":   "The key has ended. Other servers refuse it within 10 s.",

	"webhook-on":      "The webhook is on: facts are sent within 3 s.",
	"webhook-off":     "The webhook is off.",
	"webhook-deleted": "The webhook is gone.",
}

// frame makes the frame of a page.
func (v *visit) frame(title string, data any) *frame {
	f := &frame{
		Title: title, Root: v.root(), In: v.in, Open: v.in && v.key == nil, ReadOnly: v.c.o.Mode == Read, Key: v.key,
		Done: done[v.r.URL.Query().Get("done")], Once: rand.Text(), Users: v.may(api.ScopePush), Data: data,
		Ops: v.mayChange(api.ScopeOps), Push: v.mayChange(api.ScopePush), Sales: v.mayChange(api.ScopeSales), Admin: v.mayChange(api.ScopeAdmin),
		Jobs: v.mayChange(api.ScopeJobs), SeesJobs: v.may(api.ScopeJobs) || v.may(api.ScopeJobsWork),
	}
	f.Queues = f.Ops || f.Jobs
	for _, p := range pages() {
		if p.name != "" && v.may(p.need) && v.may(p.also) {
			href := strings.TrimSuffix(strings.TrimPrefix(p.pattern, "GET /console/"), "{$}")
			first, _, _ := strings.Cut(strings.TrimPrefix(v.r.URL.Path, "/console/"), "/")
			f.Nav = append(f.Nav, link{f.Root + href, p.name, first == href})
		}
	}
	return f
}

// root is the relative link from the page to /console/.
func (v *visit) root() string {
	return "./" + strings.Repeat("../", strings.Count(strings.TrimPrefix(v.r.URL.EscapedPath(), "/console/"), "/"))
}

// here is the page's path and query below the console.
func (v *visit) here() string {
	if v.r.Method != http.MethodGet {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(v.r.URL.RequestURI(), "/console"), "/")
}

// page answers with a page that refreshes itself every few seconds; 0: never.
func (v *visit) page(view, title string, refresh int, data any) error {
	f := v.frame(title, data)
	f.Refresh = refresh
	return v.write(http.StatusOK, view, f)
}

// write answers with a page.
func (v *visit) write(status int, view string, f *frame) error {
	var body bytes.Buffer
	if err := v.c.views[view].ExecuteTemplate(&body, "layout", f); err != nil {
		return fmt.Errorf("draw %s: %w", view, err)
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	v.w.WriteHeader(status)
	_, _ = v.w.Write(body.Bytes()) // the browser may have gone
	return nil
}

// fail answers with an error: a visitor without a session is asked to log in, and a page whose
// dependency is away shows no data and reloads itself.
func (v *visit) fail(err error) {
	p := asProblem(err)
	if p.Code == api.CodeUnauthorized {
		v.askLogin(p, v.here())
		return
	}
	if p.Code == api.CodeInternal {
		v.c.o.Logger.ErrorContext(v.r.Context(), "a page of the console failed", "request_id", v.w.Header().Get("X-Request-Id"), "error", err)
	}
	if p.Status == http.StatusServiceUnavailable {
		v.in, v.key = false, nil
	}
	f := v.frame(p.Title, p)
	if p.Retryable && v.r.Method == http.MethodGet {
		f.Reload = 3
	}
	if err := v.write(p.Status, "problem", f); err != nil {
		http.Error(v.w, p.Title, p.Status)
	}
}

// askLogin answers with the form for an API key. to is the page that the visitor wanted.
func (v *visit) askLogin(p *problem, to string) {
	if p.Status == http.StatusServiceUnavailable {
		v.fail(p)
		return
	}
	v.in, v.key = false, nil
	_ = v.write(p.Status, "login", v.frame("Log in", map[string]any{"Problem": p, "To": to}))
}

// functions are what templates can call.
func functions() template.FuncMap {
	return template.FuncMap{
		"number": number, "ms": milliseconds, "over": over, "opens": func(s api.Scope) string { return opens[s] }, "about": func(ms *float64) string { return about(*ms) },
		"stamp": func(t api.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
		"iso":   func(t api.Time) string { return t.UTC().Format(time.RFC3339) },
		"ago":   func(t api.Time) string { return lasting(max(0, time.Since(t.Time))) },
		"join":  joined, "shards": shards, "pretty": pretty, "verdict": verdict, "jobOf": jobOf, "failed": func(c api.JobCounts) int64 { return failedJobs(&c) }, "list": func(all ...any) []any { return all },
	}
}

// milliseconds writes a number of milliseconds as a duration.
func milliseconds(n any) string {
	if p, ok := n.(*int64); ok {
		n = *p
	}
	ms, _ := n.(int64)
	return lasting(time.Duration(ms) * time.Millisecond)
}

// number writes a number with thin spaces between its thousands.
func number(n any) string {
	switch p := n.(type) {
	case *int64:
		n = *p
	case *float64:
		n = *p
	}
	text := fmt.Sprint(n)
	if f, ok := n.(float64); ok {
		text = strconv.FormatFloat(f, 'f', 1, 64)
	}
	whole, rest, broken := strings.Cut(text, ".")
	for at := len(whole) - 3; at > 0 && whole[at-1] != '-'; at -= 3 {
		whole = whole[:at] + "\u202f" + whole[at:]
	}
	if broken {
		return whole + "." + rest
	}
	return whole
}

// about writes an estimated number of milliseconds with two digits.
func about(ms float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{3_600_000, "h"}, {60_000, "min"}, {1000, "s"}} {
		if ms >= 1.95*unit.size || unit.size == 1000 && ms >= 995 {
			return twoDigits(ms/unit.size) + " " + unit.name
		}
	}
	return twoDigits(ms) + " ms"
}

// twoDigits writes a number with its two first digits.
func twoDigits(n float64) string {
	text := strconv.FormatFloat(n, 'g', 2, 64)
	rounded, _ := strconv.ParseFloat(text, 64) // FormatFloat made it
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// lasting writes a duration with its largest unit.
func lasting(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if d >= 2*unit.size || unit.size == time.Second && d >= time.Second {
			return number(int64(d/unit.size)) + " " + unit.name
		}
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
}

// joined writes a list.
func joined(list any) string {
	switch list := list.(type) {
	case []string:
		return strings.Join(list, ", ")
	case []api.Scope:
		words := make([]string, len(list))
		for i, one := range list {
			words[i] = string(one)
		}
		return strings.Join(words, ", ")
	}
	return fmt.Sprint(list)
}

// shards writes numbers in the form of FANFARE_SHARD_SET, such as 0-7, 12.
func shards(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		last := i
		for last+1 < len(list) && list[last+1] == list[last]+1 {
			last++
		}
		part := strconv.Itoa(list[i])
		if last > i {
			part += "-" + strconv.Itoa(list[last])
		}
		parts, i = append(parts, part), last+1
	}
	return strings.Join(parts, ", ")
}
