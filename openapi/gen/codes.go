package main

import (
	"errors"
	"fmt"
	"strings"

	"fanfare/api"
)

// codesBegin and codesEnd enclose the table of codes in docs/spec/http.md.
const (
	codesBegin = "<!-- go generate ./openapi writes this table from api/errors.go -->\n"
	codesEnd   = "<!-- end of the table -->\n"
)

// withCodes returns the text of docs/spec/http.md with a fresh table of codes.
func withCodes(contract string) (string, error) {
	head, rest, begun := strings.Cut(contract, codesBegin)
	_, tail, ended := strings.Cut(rest, codesEnd)
	if !begun || !ended {
		return "", errors.New("docs/spec/http.md has no place for the table of codes")
	}
	return head + codesBegin + codesTable() + codesEnd + tail, nil
}

func codesTable() string {
	var b strings.Builder
	b.WriteString("\n| status | code | retryable | meaning |\n|---|---|---|---|\n")
	for _, code := range api.Codes() {
		m, retryable := api.MeaningOf(code), "no"
		if m.Retryable {
			retryable = "yes"
		}
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", m.Status, code, retryable, m.About)
	}
	b.WriteString("\n")
	return b.String()
}
