package render

import (
	"fmt"
	"strings"
	"text/template/parse"

	"fanfare/api"
)

// Template is a parsed title or body of an event type. It may have only text, {{.actor}},
// {{.object}}, {{.data.name}} and {{if}}{{else}}{{end}}. It is safe for concurrent use. The zero
// value renders an empty text.
type Template struct {
	root *parse.ListNode
}

// ParseTemplate reads a template. Anything that a template may not have is a CodeValidation error
// of the given field.
func ParseTemplate(field, text string) (*Template, error) {
	if text == "" {
		return &Template{}, nil
	}
	trees := map[string]*parse.Tree{}
	tree := parse.New(field)
	// ParseComments keeps comments, so that they are refused like any other node. SkipFuncCheck
	// lets `{{len .x}}` be parsed, so that its error names the function.
	tree.Mode = parse.ParseComments | parse.SkipFuncCheck
	if _, err := tree.Parse(text, "", "", trees); err != nil {
		return nil, api.Invalid(field, "template", "is not a template: %s", parseMessage(err))
	}
	if len(trees) > 1 || tree.Root == nil {
		return nil, api.Invalid(field, "template", "may not define templates")
	}
	if err := checkList(field, tree.Root); err != nil {
		return nil, err
	}
	return &Template{root: tree.Root}, nil
}

// parseMessage cuts the "template: name:line: " that text/template puts first.
func parseMessage(err error) string {
	s := err.Error()
	if _, rest, ok := strings.Cut(s, ": "); ok {
		if _, tail, ok := strings.Cut(rest, ": "); ok {
			return tail
		}
	}
	return s
}

func checkList(field string, l *parse.ListNode) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := checkNode(field, n); err != nil {
			return err
		}
	}
	return nil
}

func checkNode(field string, n parse.Node) error {
	switch n := n.(type) {
	case *parse.TextNode:
		return nil
	case *parse.ActionNode:
		return checkPipe(field, n.Pipe)
	case *parse.IfNode:
		if err := checkPipe(field, n.Pipe); err != nil {
			return err
		}
		if err := checkList(field, n.List); err != nil {
			return err
		}
		return checkList(field, n.ElseList)
	}
	return notAllowed(field, n)
}

// checkPipe allows exactly one name: no variables, no functions, no pipes.
func checkPipe(field string, p *parse.PipeNode) error {
	if len(p.Decl) > 0 || len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return notAllowed(field, p)
	}
	f, ok := p.Cmds[0].Args[0].(*parse.FieldNode)
	if !ok || !knownName(f.Ident) {
		return notAllowed(field, p)
	}
	return nil
}

func knownName(ident []string) bool {
	switch len(ident) {
	case 1:
		return ident[0] == "actor" || ident[0] == "object"
	case 2:
		return ident[0] == "data"
	}
	return false
}

func notAllowed(field string, n fmt.Stringer) error {
	return api.Invalid(field, "template",
		"may hold text, {{.actor}}, {{.object}}, {{.data.name}} and {{if}}{{else}}{{end}}, not %q", n.String())
}

// Render fills the template from an event. If the actor, the object or a name of data is to be
// printed but is missing, that is a CodeValidation error of the name; in an {{if}} it is false.
func (t *Template) Render(e *api.EventRequest) (string, error) {
	if t == nil || t.root == nil {
		return "", nil
	}
	var b strings.Builder
	b.Grow(64)
	if err := renderList(&b, t.root, e); err != nil {
		return "", err
	}
	return b.String(), nil
}

func renderList(b *strings.Builder, l *parse.ListNode, e *api.EventRequest) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := renderNode(b, n, e); err != nil {
			return err
		}
	}
	return nil
}

func renderNode(b *strings.Builder, n parse.Node, e *api.EventRequest) error {
	switch n := n.(type) {
	case *parse.TextNode:
		b.Write(n.Text)
	case *parse.ActionNode:
		value, ok := lookup(n.Pipe, e)
		if !ok {
			name := strings.Join(n.Pipe.Cmds[0].Args[0].(*parse.FieldNode).Ident, ".")
			return api.Invalid(name, "required", "is missing, and the event type's template prints it")
		}
		b.WriteString(value)
	case *parse.IfNode:
		if value, _ := lookup(n.Pipe, e); value != "" {
			return renderList(b, n.List, e)
		}
		return renderList(b, n.ElseList, e)
	}
	return nil
}

// lookup finds the value of a name that checkPipe allowed. It returns false if the value is
// missing.
func lookup(p *parse.PipeNode, e *api.EventRequest) (string, bool) {
	ident := p.Cmds[0].Args[0].(*parse.FieldNode).Ident
	switch ident[0] {
	case "actor":
		return e.Actor, e.Actor != ""
	case "object":
		return e.Object, e.Object != ""
	}
	value, ok := e.Data[ident[1]]
	return value, ok
}
