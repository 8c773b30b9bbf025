package console

import (
	"fanfare/api"
)

// page is a page or an action.
type page struct {
	pattern string
	serve   func(v *visit) error
	// name is the page's entry in the navigation, for visitors who have both scopes; "": it has none.
	name       string
	need, also api.Scope
}

// pages lists all pages. What a visitor may see and do is decided by the routes that a page calls; the
// scopes here decide what the navigation shows.
func pages() []page {
	return []page{
		{"GET /console/{$}", (*visit).overview, "Overview", api.ScopeOpsRead, api.ScopeOpsRead},

		{"GET /console/apps", (*visit).apps, "Apps", api.ScopeOpsRead, api.ScopeOpsRead},
		{"POST /console/apps/{topic}/probe", (*visit).probe, "", "", ""},

		{"GET /console/servers", (*visit).servers, "Servers", api.ScopeOpsRead, api.ScopeOpsRead},

		{"GET /console/keys", (*visit).keys, "Keys", api.ScopeAdmin, api.ScopeAdmin},
		{"POST /console/keys", (*visit).makeKey, "", "", ""},
		{"GET /console/keys/{id}/revoke", (*visit).askRevoke, "", "", ""},
		{"POST /console/keys/{id}/revoke", (*visit).revoke, "", "", ""},

		{"GET /console/about", (*visit).about, "About", api.ScopeOpsRead, api.ScopeOpsRead},
	}
}
