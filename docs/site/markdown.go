package site

import (
	"bytes"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// section is a heading of a page and the text below it, up to the next heading.
type section struct {
	Level         int
	Title, Anchor string
	text          []string
}

// newMarkdown returns a converter for GitHub's Markdown. It has no inline styles, which the page's policy forbids. The
// documents are our own, so that the HTML in them, which is comments, may stay.
func newMarkdown() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.Linkify, extension.Strikethrough, extension.TaskList,
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
		goldmark.WithRendererOptions(html.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(codeRenderer{}, 1))),
	)
}

// convert makes a page's body and its sections. link says where a link leads; ok is false for a file that the site
// does not have.
func convert(md goldmark.Markdown, source []byte, link func(string) (href, named string, ok bool)) (template.HTML, []section, error) {
	doc := md.Parser().Parse(text.NewReader(source))
	sections := name(doc, source)
	lead(doc, link)
	scope(doc)
	gatherTabs(doc, source)
	var out bytes.Buffer
	err := md.Renderer().Render(&out, source, doc)
	return template.HTML(out.String()), sections, err //nolint:gosec // the documents are part of the program
}

// name gives the headings their anchors, and returns the sections that they begin.
func name(doc ast.Node, source []byte) (sections []section) {
	seen := map[string]int{}
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		h, is := n.(*ast.Heading)
		if !is {
			if len(sections) > 0 {
				last := &sections[len(sections)-1]
				last.text = append(last.text, words(n, source))
			}
			continue
		}
		title := words(h, source)
		anchor := slug(title)
		if seen[slug(title)]++; seen[slug(title)] > 1 {
			anchor += "-" + strconv.Itoa(seen[slug(title)]-1)
		}
		h.SetAttributeString("id", []byte(anchor))
		sections = append(sections, section{Level: h.Level, Title: title, Anchor: anchor})
		if h.Level > 1 {
			own := ast.NewLink()
			own.Destination = []byte("#" + anchor)
			own.SetAttributeString("class", []byte("anchor"))
			own.SetAttributeString("aria-label", []byte("Link to this section"))
			own.AppendChild(own, ast.NewString([]byte("#")))
			h.AppendChild(h, own)
		}
	}
	return sections
}

// slug is the anchor that GitHub gives a heading.
func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

// words is the text of a node, without its markup, on one line.
func words(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // it returns no error
		if !entering {
			if n.Type() == ast.TypeBlock {
				out.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			out.Write(n.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.String:
			out.Write(n.Value)
		case *ast.AutoLink:
			out.Write(n.Label(source))
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			out.Write(n.Lines().Value(source))
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(out.String()), " ")
}

// lead gives links and pictures the addresses that they have on the site. A link to a file that the site does not
// have becomes plain text that names the file.
func lead(doc ast.Node, link func(string) (href, named string, ok bool)) {
	var plain []*ast.Link
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // it returns no error
		switch n := n.(type) {
		case *ast.Link:
			if href, _, ok := link(string(n.Destination)); ok {
				n.Destination = []byte(href)
			} else if entering {
				plain = append(plain, n)
				return ast.WalkSkipChildren, nil
			}
			return ast.WalkSkipChildren, nil
		case *ast.Image:
			if href, _, ok := link(string(n.Destination)); ok && entering {
				n.Destination = []byte(href)
			}
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	for _, l := range plain {
		_, named, _ := link(string(l.Destination))
		parent := l.Parent()
		parent.InsertBefore(parent, l, raw(`<span class="file" title="`+template.HTMLEscapeString(named)+` in the repository">`))
		for child := l.FirstChild(); child != nil; child = l.FirstChild() {
			parent.InsertBefore(parent, l, child)
		}
		parent.ReplaceChild(parent, l, raw(`</span>`))
	}
}

// scope says of the heads of tables that they are those of columns, as screen readers want to know.
func scope(doc ast.Node) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // it returns no error
		if n.Kind() == extast.KindTableCell && n.Parent().Kind() == extast.KindTableHeader {
			n.SetAttributeString("scope", []byte("col"))
		}
		return ast.WalkContinue, nil
	})
}

// raw is a piece of HTML between texts.
func raw(html string) ast.Node {
	s := ast.NewString([]byte(html))
	s.SetCode(true) // written as it is
	return s
}

// languages are those whose code blocks become tabs when they follow each other, by the word after the fence.
var languages = map[string]string{
	"sh": "curl", "ts": "TypeScript", "js": "JavaScript", "python": "Python", "go": "Go", "swift": "Swift", "kotlin": "Kotlin",
}

// kindTabs is the kind of tabs.
var kindTabs = ast.NewNodeKind("Tabs")

// tabs are code blocks that say the same in several languages.
type tabs struct {
	ast.BaseBlock
	number int // on its page
	names  []string
}

// Kind returns the kind of the node.
func (*tabs) Kind() ast.NodeKind { return kindTabs }

// Dump prints the node.
func (n *tabs) Dump(source []byte, level int) { ast.DumpHelper(n, source, level, nil, nil) }

// gatherTabs puts code blocks of different languages, with nothing between them, into tabs.
func gatherTabs(doc ast.Node, source []byte) {
	number := 0
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		run, names := []ast.Node{}, []string{}
		for next := n; next != nil; next = next.NextSibling() {
			name := tabName(next, source)
			if name == "" || strings.Contains("\n"+strings.Join(names, "\n")+"\n", "\n"+name+"\n") {
				break
			}
			run, names = append(run, next), append(names, name)
		}
		if len(run) < 2 {
			continue
		}
		number++
		t := &tabs{number: number, names: names}
		doc.InsertBefore(doc, n, t)
		for _, block := range run {
			t.AppendChild(t, block)
		}
		n = t
	}
}

// tabName is what a block's tab is called; "" if it is not code in one of the languages.
func tabName(n ast.Node, source []byte) string {
	block, is := n.(*ast.FencedCodeBlock)
	if !is {
		return ""
	}
	return languages[string(block.Language(source))]
}

// codeRenderer writes code blocks and tabs.
type codeRenderer struct{}

// RegisterFuncs tells goldmark what it writes.
func (codeRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, writeCode)
	r.Register(kindTabs, writeTabs)
}

func writeCode(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language := template.HTMLEscapeString(string(n.(*ast.FencedCodeBlock).Language(source)))
	_, err := fmt.Fprintf(w, "<div class=\"code\"><pre><code data-language=\"%s\">%s</code></pre></div>\n", language, util.EscapeHTML(n.Lines().Value(source)))
	return ast.WalkSkipChildren, err
}

// writeTabs writes a group of radio buttons, which show the block of the same number by styles alone. The arrow keys
// switch them.
func writeTabs(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		_, err := w.WriteString("</div>\n")
		return ast.WalkContinue, err
	}
	t := n.(*tabs)
	_, err := fmt.Fprintln(w, `<div class="tabs" role="radiogroup" aria-label="Language">`)
	for i, name := range t.names {
		checked := ""
		if i == 0 {
			checked = " checked"
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "<input type=\"radio\" name=\"tabs-%d\" id=\"tabs-%[1]d-%d\" value=\"%s\"%s><label for=\"tabs-%[1]d-%[2]d\">%[3]s</label>\n", t.number, i, name, checked)
		}
	}
	return ast.WalkContinue, err
}
