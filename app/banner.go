package app

import (
	"fmt"
	"strings"
)

// announce says where the server is and what a newcomer needs to know. A person gets text on
// stdout, a machine gets lines of the log.
func (a *app) announce(front *front, to outputs) {
	url := front.url()
	a.log.Info("listening", "addr", front.listener.Addr().String(), "docs", url+"/docs/", "roles", strings.Join(a.config.Roles, ","),
		"open", !a.keys.Any(), "settings", a.config.settings())
	if to.json {
		for _, note := range a.notes(true) {
			a.log.Warn(note)
		}
		return
	}
	fmt.Fprintf(to.out, "fanfare listens on %s\n  documents  %s/docs/\n  readiness  %s/readyz\n", url, url, url)
	for _, note := range a.notes(true) {
		fmt.Fprintf(to.out, "  note       %s\n", note)
	}
	authorization := " \\\n    -H 'Authorization: Bearer <api key>'"
	if !a.keys.Any() {
		fmt.Fprintln(to.out, "  note       no API key yet: open to this machine alone; make one with: fanfare keys create --name first --scopes admin")
		authorization = ""
	}
	fmt.Fprintf(to.out, `
Try it: register a phone, then send it something.

  curl -X PUT %[1]s/v1/users/bob/devices/%[3]s%[2]s \
    -H 'Content-Type: application/json' \
    -d '{"platform":"apns","topic":"com.example.app","environment":"sandbox"}'
  curl %[1]s/v1/events%[2]s \
    -H 'Content-Type: application/json' \
    -d '{"type":"hello","audience":{"users":["bob"]},"alert":{"title":"Hello","body":"from fanfare"}}'

`, url, authorization, strings.Repeat("c0ffee00", 8))
}
