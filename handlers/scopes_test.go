package handlers_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/handlers"
)

// mayCall lists for each route the scopes of which one is enough, according to the contract. It is
// written out here and not taken from the table of routes.
var mayCall = map[string]string{
	"GET /healthz":      "anybody",
	"GET /readyz":       "anybody",
	"GET /metrics":      "anybody",
	"GET /openapi.json": "anybody",
	"GET /":             "anybody",
	"GET /docs":         "anybody",
	"GET /docs/*":       "anybody",
	"GET /llms.txt":     "anybody",
	"GET /console":      "anybody",
	"GET /console/*":    "anybody",
	"POST /console/*":   "anybody",

	"GET /v1/webpush/{topic}/key": "anybody",

	"GET /v1/events":                   "ops:read ops admin",
	"GET /v1/stats":                    "ops:read ops admin",
	"GET /v1/about":                    "ops:read ops admin",
	"GET /v1/stats/series":             "ops:read ops admin",
	"GET /v1/stats/stream":             "ops:read ops admin",
	"GET /v1/servers":                  "ops:read ops admin",
	"GET /v1/apps":                     "ops:read ops admin",
	"POST /v1/apps/{topic}/probe":      "ops admin",
	"GET /v1/facts":                    "ops admin",
	"PUT /v1/facts/types":              "ops admin",
	"GET /v1/facts/types":              "ops admin",
	"GET /v1/webhooks":                 "ops admin",
	"PUT /v1/webhooks/{id}":            "ops admin",
	"GET /v1/webhooks/{id}":            "ops admin",
	"DELETE /v1/webhooks/{id}":         "ops admin",
	"POST /v1/webhooks/{id}/secrets":   "ops admin",
	"POST /v1/webhooks/{id}/replay":    "ops admin",
	"POST /v1/webhooks/{id}/test":      "ops admin",
	"GET /v1/dead-letters":             "ops:read ops admin",
	"GET /v1/dead-letters/groups":      "ops:read ops admin",
	"POST /v1/dead-letters/retry":      "ops admin",
	"POST /v1/dead-letters/delete":     "ops admin",
	"POST /v1/dead-letters/{id}/retry": "ops admin",
	"DELETE /v1/dead-letters/{id}":     "ops admin",

	"GET /v1/keys":         "admin",
	"POST /v1/keys":        "admin",
	"DELETE /v1/keys/{id}": "admin",

	"GET /v1/operations":      "ops:read ops admin",
	"GET /v1/operations/{id}": "push push:all contacts chat sales sales:buy jobs jobs:work locks values values:read tokens users:erase ops:read ops admin", // see TestE1_WhoSeesAnOperation

	"GET /v1/event-types":                        "push admin",
	"PUT /v1/event-types/{type}":                 "push admin",
	"GET /v1/event-types/{type}":                 "push admin",
	"DELETE /v1/event-types/{type}":              "push admin",
	"POST /v1/events":                            "push admin",
	"POST /v1/events/batch":                      "push admin",
	"GET /v1/events/{id}":                        "push admin",
	"GET /v1/events/{id}/users/{user}":           "admin", // needs two scopes, see TestN10_Scopes
	"GET /v1/events/{id}/notifications":          "admin", // needs two scopes, see TestN21_WhoFailed
	"POST /v1/events/{id}/cancel":                "push ops admin",
	"POST /v1/events/{id}/opened":                "push admin",
	"POST /v1/events/{id}/dismissed":             "push admin",
	"POST /v1/devices/batch":                     "push admin",
	"PUT /v1/users/{user}/devices/{token}":       "push admin",
	"POST /v1/users/{user}/devices":              "push admin",
	"GET /v1/users/{user}/devices":               "push admin",
	"DELETE /v1/users/{user}/devices/{token}":    "push admin",
	"POST /v1/users/{user}/devices/{token}/test": "push admin",
	"PUT /v1/users/{user}/activities/{token}":    "push admin",
	"GET /v1/users/{user}/activities":            "push admin",
	"DELETE /v1/users/{user}/activities/{token}": "push admin",
	"PUT /v1/users/{user}/opt-outs/{type}":       "push admin",
	"DELETE /v1/users/{user}/opt-outs/{type}":    "push admin",
	"PUT /v1/users/{user}/mutes/{object}":        "push admin",
	"DELETE /v1/users/{user}/mutes/{object}":     "push admin",
	"GET /v1/users/{user}/notification-settings": "push admin",
	"PUT /v1/users/{user}/topics/{topic}":        "push admin",
	"DELETE /v1/users/{user}/topics/{topic}":     "push admin",
	"GET /v1/users/{user}/topics":                "push admin",
	"GET /v1/topics":                             "push ops ops:read admin",
	"PUT /v1/topics/{topic}":                     "push admin",
	"GET /v1/topics/{topic}":                     "push admin",
	"POST /v1/topics/{topic}/users":              "push admin",
	"GET /v1/topics/{topic}/users":               "push admin",

	"POST /v1/users/{user}/contacts/batch":          "contacts admin",
	"PUT /v1/users/{user}/contacts/{contact}":       "contacts admin",
	"DELETE /v1/users/{user}/contacts/{contact}":    "contacts admin",
	"GET /v1/users/{user}/contacts":                 "contacts admin",
	"POST /v1/uploads":                              "contacts admin",
	"PATCH /v1/uploads/{id}":                        "contacts admin",
	"DELETE /v1/uploads/{id}":                       "contacts admin",
	"GET /v1/users/{user}/recent-contacts":          "contacts admin",
	"GET /v1/users/{user}/recent-contacts/uploads":  "contacts admin",
	"POST /v1/users/{user}/recent-contacts/rebuild": "contacts admin",

	"DELETE /v1/users/{user}":             "users:erase admin",
	"POST /v1/users/{user}/tokens":        "tokens admin",
	"POST /v1/users/{user}/tokens/revoke": "tokens admin",
	"POST /v1/users/{user}/tickets":       "tokens admin",

	"POST /v1/chats":                                  "chat admin",
	"GET /v1/chats/{chat}":                            "chat admin",
	"GET /v1/chats/{chat}/members":                    "chat admin",
	"PUT /v1/chats/{chat}/members/{user}":             "chat admin",
	"DELETE /v1/chats/{chat}/members/{user}":          "chat admin",
	"POST /v1/chats/{chat}/messages":                  "chat admin",
	"GET /v1/chats/{chat}/messages":                   "chat admin",
	"DELETE /v1/chats/{chat}/messages/{id}":           "chat admin",
	"POST /v1/chats/{chat}/typing":                    "chat admin",
	"GET /v1/users/{user}/badge":                      "push admin",
	"PUT /v1/users/{user}/badge":                      "push admin",
	"POST /v1/users/{user}/badge":                     "push admin",
	"GET /v1/users/{user}/chats":                      "chat admin",
	"GET /v1/users/{user}/messages/pending":           "chat admin",
	"POST /v1/users/{user}/messages/ack":              "chat admin",
	"GET /v1/users/{user}/messages/stream":            "chat admin",
	"POST /v1/queues/{queue}/jobs":                    "jobs admin",
	"POST /v1/queues/{queue}/jobs/batch":              "jobs admin",
	"POST /v1/queues/{queue}/claims":                  "jobs:work admin",
	"POST /v1/queues/{queue}/results":                 "jobs:work admin",
	"GET /v1/jobs/{id}":                               "jobs jobs:work admin",
	"DELETE /v1/jobs/{id}":                            "jobs admin",
	"GET /v1/queues":                                  "jobs ops:read ops admin",
	"GET /v1/queues/{queue}":                          "jobs ops:read ops admin",
	"GET /v1/queues/{queue}/series":                   "jobs ops:read ops admin",
	"POST /v1/queues/{queue}/pause":                   "jobs ops admin",
	"POST /v1/queues/{queue}/resume":                  "jobs ops admin",
	"GET /v1/live/{object}":                           "push ops:read ops admin",
	"GET /v1/broadcasts":                              "push ops:read ops admin",
	"PUT /v1/broadcasts/{object}":                     "push admin",
	"GET /v1/broadcasts/{object}":                     "push ops:read ops admin",
	"DELETE /v1/broadcasts/{object}":                  "push admin",
	"GET /v1/schedules":                               "jobs ops:read ops admin",
	"PUT /v1/schedules/{id}":                          "jobs admin",
	"GET /v1/schedules/{id}":                          "jobs ops:read ops admin",
	"DELETE /v1/schedules/{id}":                       "jobs admin",
	"POST /v1/locks/{lock}/acquire":                   "locks admin",
	"POST /v1/locks/{lock}/renew":                     "locks admin",
	"POST /v1/locks/{lock}/done":                      "locks admin",
	"POST /v1/locks/{lock}/fail":                      "locks admin",
	"POST /v1/locks/{lock}/release":                   "locks admin",
	"GET /v1/locks/{lock}":                            "locks admin",
	"PUT /v1/values/{value}":                          "values admin",
	"GET /v1/values/{value}":                          "values values:read admin",
	"DELETE /v1/values/{value}":                       "values admin",
	"PUT /v1/counters/{counter}":                      "values admin",
	"GET /v1/counters/{counter}":                      "values values:read admin",
	"DELETE /v1/counters/{counter}":                   "values admin",
	"POST /v1/counters/{counter}/add":                 "values admin",
	"GET /v1/sales":                                   "sales admin",
	"PUT /v1/sales/{sale}":                            "sales admin",
	"DELETE /v1/sales/{sale}":                         "sales admin",
	"POST /v1/sales/{sale}/stock":                     "sales admin",
	"POST /v1/sales/{sale}/reservations/{id}/extend":  "sales sales:buy admin",
	"GET /v1/sales/{sale}/orders":                     "sales admin",
	"GET /v1/sales/{sale}":                            "sales sales:buy admin",
	"GET /v1/sales/{sale}/stream":                     "sales sales:buy admin",
	"POST /v1/sales/{sale}/reservations":              "sales sales:buy admin",
	"GET /v1/sales/{sale}/reservations":               "sales sales:buy admin",
	"GET /v1/sales/{sale}/reservations/{id}":          "sales sales:buy admin",
	"POST /v1/sales/{sale}/reservations/{id}/confirm": "sales sales:buy admin",
	"POST /v1/sales/{sale}/reservations/{id}/release": "sales sales:buy admin",
}

// Every route is called without a key and with a key of each single scope. The answer is 401
// without a key, 403 for each scope that is not sufficient, and neither for each that is.
func TestScopes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workChats()
	bearers := map[string]string{}
	for _, scope := range []string{"push", "push:all", "contacts", "chat", "sales", "sales:buy", "jobs", "jobs:work", "locks", "values", "values:read", "tokens", "users:erase", "ops:read", "ops", "admin"} {
		bearers[scope] = "Authorization: Bearer " + w.mustKey(api.Scope(scope))
	}
	if len(bearers) != len(api.Scopes) {
		t.Errorf("there are %d scopes, this test knows %d", len(api.Scopes), len(bearers))
	}
	untested := maps.Clone(mayCall)
	for _, rt := range handlers.Routes() {
		name := rt.Method + " " + rt.Pattern
		may, ok := mayCall[name]
		if delete(untested, name); !ok {
			t.Errorf("%s is not in this test's table", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := pathOf(rt.Pattern)
			switch {
			case rt.Method == "DELETE" && rt.Pattern == "/v1/users/{user}":
				path = "/v1/users/nobody" // the streams of the other tests must not end
			case rt.Pattern == "/v1/events/{id}/notifications":
				path += "?state=failed" // it looks for the second scope once the query is right
			}
			ask := func(headers ...string) int {
				return w.status(t, call{method: rt.Method, path: path, headers: headers})
			}
			if got := ask(); (got == 401) != (may != "anybody") {
				t.Errorf("without a key: %d", got)
			}
			for scope, bearer := range bearers {
				want := may == "anybody" || slices.Contains(strings.Fields(may), scope)
				if got := ask(bearer); got == 401 || (got != 403) != want {
					t.Errorf("with a key of %s: %d, may call it: %t", scope, got, want)
				}
			}
		})
	}
	if len(untested) > 0 {
		t.Errorf("there is no such route: %v", slices.Sorted(maps.Keys(untested)))
	}
}

// status is the status of an answer. It does not wait for a body that may not end.
func (w *world) status(t testing.TB, c call) int {
	t.Helper()
	res, err := w.open(t, c)
	if err != nil {
		t.Fatal(fmt.Errorf("%s %s: %w", c.method, c.path, err))
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// open sends a call and returns the answer as soon as its head has arrived.
func (w *world) open(t testing.TB, c call) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), c.method, w.url+c.path, c.reader())
	if err != nil {
		return nil, err
	}
	for _, line := range c.headers {
		c.setHeader(r, line)
	}
	return http.DefaultTransport.RoundTrip(r)
}
