package handlers

import (
	"net/http"
	"slices"
	"strings"

	"fanfare/api"
	"fanfare/openapi"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel/trace"
)

// open is the scope of routes that need no key.
const open api.Scope = ""

// route is one line of the table.
type route struct {
	method, pattern string
	scope           api.Scope
	endpoint
}

// routes is every route there is.
func (s *server) routes() []route {
	return []route{
		{"GET", "/healthz", open, handle(s.getHealth).always()},
		{"GET", "/readyz", open, handle(s.getReady).always()},
		{"GET", "/metrics", open, plain(s.getMetrics())},
		{"GET", "/openapi.json", open, plain(openapi.Document())},
		{"GET", "/docs", open, plain(http.RedirectHandler("/docs/", http.StatusMovedPermanently))},
		{"GET", "/docs/*", open, plain(openapi.UI(nothingHere))},

		{"GET", "/v1/stats", api.ScopeOps, handle(s.getStats)},
		{"GET", "/v1/dead-letters", api.ScopeOps, handle(s.listDeadLetters)},
		{"POST", "/v1/dead-letters/{id}/retry", api.ScopeOps, handle(s.retryDeadLetter)},
		{"DELETE", "/v1/dead-letters/{id}", api.ScopeOps, handle(s.deleteDeadLetter)},

		{"GET", "/v1/event-types", api.ScopePush, handle(s.listEventTypes)},
		{"PUT", "/v1/event-types/{type}", api.ScopePush, handle(s.putEventType)},
		{"GET", "/v1/event-types/{type}", api.ScopePush, handle(s.getEventType)},
		{"DELETE", "/v1/event-types/{type}", api.ScopePush, handle(s.deleteEventType)},

		{"POST", "/v1/events", api.ScopePush, handle(s.postEvent).upTo(api.MaxEventBody)},
		{"POST", "/v1/events/batch", api.ScopePush, handle(s.postEventBatch).upTo(api.MaxBatchBody)},
		{"GET", "/v1/events/{id}", api.ScopePush, handle(s.getEvent)},

		{"PUT", "/v1/users/{user}/devices/{token}", api.ScopePush, handle(s.putDevice)},
		{"GET", "/v1/users/{user}/devices", api.ScopePush, handle(s.listDevices)},
		{"DELETE", "/v1/users/{user}/devices/{token}", api.ScopePush, handle(s.deleteDevice)},

		{"PUT", "/v1/users/{user}/opt-outs/{type}", api.ScopePush, handle(s.putOptOut)},
		{"DELETE", "/v1/users/{user}/opt-outs/{type}", api.ScopePush, handle(s.deleteOptOut)},
		{"PUT", "/v1/users/{user}/mutes/{object}", api.ScopePush, handle(s.putMute)},
		{"DELETE", "/v1/users/{user}/mutes/{object}", api.ScopePush, handle(s.deleteMute)},
		{"GET", "/v1/users/{user}/notification-settings", api.ScopePush, handle(s.getSettings)},

		{"PUT", "/v1/users/{user}/contacts/{contact}", api.ScopeContacts, handle(s.putContact)},
		{"DELETE", "/v1/users/{user}/contacts/{contact}", api.ScopeContacts, handle(s.deleteContact)},
		{"GET", "/v1/users/{user}/contacts", api.ScopeContacts, handle(s.listContacts)},
		{"POST", "/v1/uploads", api.ScopeContacts, handle(s.postUpload)},
		{"PATCH", "/v1/uploads/{id}", api.ScopeContacts, handle(s.patchUpload)},
		{"DELETE", "/v1/uploads/{id}", api.ScopeContacts, handle(s.deleteUpload)},
		{"GET", "/v1/users/{user}/recent-contacts", api.ScopeContacts, handle(s.getRecentContacts)},
		{"GET", "/v1/users/{user}/recent-contacts/uploads", api.ScopeContacts, handle(s.getRecentUploads)},
		{"POST", "/v1/users/{user}/recent-contacts/rebuild", api.ScopeContacts, handle(s.rebuildRecentContacts)},

		{"POST", "/v1/chats", api.ScopeChat, handle(s.createChat)},
		{"GET", "/v1/chats/{chat}", api.ScopeChat, handle(s.getChat)},
		{"GET", "/v1/chats/{chat}/members", api.ScopeChat, handle(s.listChatMembers)},
		{"PUT", "/v1/chats/{chat}/members/{user}", api.ScopeChat, handle(s.joinChat)},
		{"DELETE", "/v1/chats/{chat}/members/{user}", api.ScopeChat, handle(s.leaveChat)},
		{"POST", "/v1/chats/{chat}/messages", api.ScopeChat, handle(s.postMessage)},
		{"GET", "/v1/chats/{chat}/messages", api.ScopeChat, handle(s.listMessages)},
		{"GET", "/v1/users/{user}/chats", api.ScopeChat, handle(s.listUserChats)},
		{"GET", "/v1/users/{user}/messages/pending", api.ScopeChat, handle(s.getPending).waiting()},
		{"POST", "/v1/users/{user}/messages/ack", api.ScopeChat, handle(s.ackMessages)},
		{"GET", "/v1/users/{user}/messages/stream", api.ScopeChat, feed(s.streamMessages)},

		{"PUT", "/v1/sales/{sale}", api.ScopeSales, handle(s.putSale)},
		{"GET", "/v1/sales/{sale}", api.ScopeSalesBuy, handle(s.getSale)},
		{"POST", "/v1/sales/{sale}/stock", api.ScopeSales, handle(s.postStock)},
		{"POST", "/v1/sales/{sale}/reservations", api.ScopeSalesBuy, handle(s.postReservation)},
		{"GET", "/v1/sales/{sale}/reservations", api.ScopeSalesBuy, handle(s.listReservations)},
		{"GET", "/v1/sales/{sale}/reservations/{id}", api.ScopeSalesBuy, handle(s.getReservation)},
		{"POST", "/v1/sales/{sale}/reservations/{id}/confirm", api.ScopeSalesBuy, handle(s.confirmReservation)},
		{"POST", "/v1/sales/{sale}/reservations/{id}/release", api.ScopeSalesBuy, handle(s.releaseReservation)},
		{"GET", "/v1/sales/{sale}/orders", api.ScopeSales, handle(s.listOrders)},
		{"GET", "/v1/sales/{sale}/stream", api.ScopeSalesBuy, feed(s.streamSale)},
	}
}

// router mounts the table. HEAD comes with every GET, OPTIONS tells what a path
// takes, and everything else is a problem like any other.
func (s *server) router(table []route) *chi.Mux {
	mux := chi.NewRouter()
	for _, rt := range table {
		h := s.mount(rt)
		mux.MethodFunc(rt.method, rt.pattern, h)
		if rt.method == http.MethodGet {
			mux.MethodFunc(http.MethodHead, rt.pattern, h)
		}
	}
	mux.NotFound(nothingHere)
	mux.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) { otherMethod(mux, w, r) })
	return mux
}

// nothingHere answers for paths that no route has.
func nothingHere(w http.ResponseWriter, r *http.Request) {
	fail(w, r, api.Errorf(api.CodeNotFound, "there is nothing at this path"))
}

// mount puts around an endpoint what it and its scope ask for.
func (s *server) mount(rt route) http.HandlerFunc {
	run := func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r.Context())
		defer func() { s.room.shrink(x.body) }()
		if err := rt.serve(s, w, r, rt.maxBody); err != nil {
			fail(w, r, err)
		}
	}
	run = rt.guard(s, run)
	if rt.scope != open {
		run = s.authorize(rt.scope, run)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		exchangeOf(r.Context()).route = rt.pattern
		trace.SpanFromContext(r.Context()).SetName(rt.method + " " + rt.pattern)
		run(w, r)
	}
}

// otherMethod answers a method that a path does not take: OPTIONS with what it
// takes, any other with a problem that says the same.
func otherMethod(mux *chi.Mux, w http.ResponseWriter, r *http.Request) {
	allow := allowed(mux, r)
	w.Header().Set("Allow", strings.Join(allow, ", "))
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	fail(w, r, api.Errorf(api.CodeMethodNotAllowed, "this path takes %s", strings.Join(allow, ", ")))
}

// allowed lists the methods that the request's path takes.
func allowed(mux *chi.Mux, r *http.Request) []string {
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	methods := []string{"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"}
	methods = slices.DeleteFunc(methods, func(m string) bool { return !mux.Match(chi.NewRouteContext(), m, path) })
	return append(methods, http.MethodOptions)
}
