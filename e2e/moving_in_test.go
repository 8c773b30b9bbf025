package e2e

import "testing"

// The lines about moving in work, and bring in a device and a contact.
func TestLinesAboutMovingIn(t *testing.T) {
	t.Parallel()
	s := &scene{T: t}
	s.serve()
	s.mustRunLines(mustBlocks(t, "docs/operations.md", "Moving in from another system"))
	var devices, contacts struct{ Items []map[string]any }
	s.server.must(200, &devices, "GET", "/v1/users/bob/devices", nil)
	s.server.must(200, &contacts, "GET", "/v1/users/bob/contacts", nil)
	if len(devices.Items) != 1 || len(contacts.Items) != 1 || contacts.Items[0]["contact"] != "carol" {
		t.Errorf("devices %v, contacts %v", devices.Items, contacts.Items)
	}
}
