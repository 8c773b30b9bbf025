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

		{"GET /console/history", (*visit).history, "History", api.ScopeOpsRead, api.ScopeOpsRead},

		{"GET /console/events", (*visit).events, "Events", api.ScopeOpsRead, api.ScopeOpsRead},
		{"GET /console/find-event", (*visit).findEvent, "", "", ""},
		{"GET /console/events/{id}", (*visit).event, "", "", ""},
		{"GET /console/events/{id}/cancel", (*visit).askCancel, "", "", ""},
		{"POST /console/events/{id}/cancel", (*visit).cancel, "", "", ""},
		{"GET /console/events/{id}/failed", (*visit).failures, "", "", ""},
		{"GET /console/events/{id}/why", (*visit).askWhy, "", "", ""},
		{"GET /console/events/{id}/users/{user}", (*visit).why, "", "", ""},

		{"GET /console/send", (*visit).askSend, "", "", ""},
		{"POST /console/send", (*visit).sendEvent, "", "", ""},

		{"GET /console/users", (*visit).users, "Users", api.ScopePush, api.ScopeOpsRead},
		{"GET /console/users/{user}", (*visit).user, "", "", ""},
		{"POST /console/users/{user}/devices/{token}/test", (*visit).testDevice, "", "", ""},

		{"GET /console/event-types", (*visit).eventTypes, "Event types", api.ScopePush, api.ScopeOpsRead},
		{"GET /console/topics", (*visit).topics, "Topics", api.ScopeOpsRead, api.ScopeOpsRead},
		{"GET /console/broadcasts", (*visit).broadcasts, "Broadcasts", api.ScopeOpsRead, api.ScopeOpsRead},
		{"GET /console/objects", (*visit).findObject, "", "", ""},
		{"GET /console/objects/{object}", (*visit).object, "", "", ""},

		{"GET /console/chats", (*visit).chats, "Chats", api.ScopeChat, api.ScopeOpsRead},
		{"GET /console/chats/{chat}", (*visit).chat, "", "", ""},

		{"GET /console/jobs", (*visit).queues, "Jobs", api.ScopeOpsRead, api.ScopeOpsRead},
		{"GET /console/queues/{queue}", (*visit).queue, "", "", ""},
		{"GET /console/queues/{queue}/pause", (*visit).askPause, "", "", ""},
		{"POST /console/queues/{queue}/pause", (*visit).pause, "", "", ""},
		{"GET /console/queues/{queue}/resume", (*visit).askResume, "", "", ""},
		{"POST /console/queues/{queue}/resume", (*visit).resume, "", "", ""},
		{"GET /console/find-job", (*visit).findJob, "", "", ""},
		{"GET /console/jobs/{id}", (*visit).job, "", "", ""},
		{"GET /console/jobs/{id}/cancel", (*visit).askCancelJob, "", "", ""},
		{"POST /console/jobs/{id}/cancel", (*visit).cancelJob, "", "", ""},

		{"GET /console/dead-letters", (*visit).deadLetters, "Dead letters", api.ScopeOpsRead, api.ScopeOpsRead},
		{"GET /console/dead-letters/ask", (*visit).askLetters, "", "", ""},
		{"POST /console/dead-letters", (*visit).changeLetters, "", "", ""},
		{"GET /console/dead-letters/all", (*visit).askAllLetters, "", "", ""},
		{"POST /console/dead-letters/all", (*visit).changeAllLetters, "", "", ""},
		{"GET /console/operations", (*visit).operations, "Operations", api.ScopeOpsRead, api.ScopeOpsRead},
		{"GET /console/operations/{id}", (*visit).operation, "", "", ""},

		{"GET /console/webhooks", (*visit).webhooks, "Webhooks", api.ScopeOps, api.ScopeOpsRead},
		{"POST /console/webhooks", (*visit).makeWebhook, "", "", ""},
		{"GET /console/webhooks/{id}", (*visit).webhook, "", "", ""},
		{"GET /console/webhooks/{id}/{change}", (*visit).askWebhook, "", "", ""},
		{"POST /console/webhooks/{id}/{change}", (*visit).changeWebhook, "", "", ""},

		{"GET /console/sales", (*visit).sales, "Sales", api.ScopeSales, api.ScopeOpsRead},
		{"GET /console/sales/{sale}", (*visit).sale, "", "", ""},
		{"POST /console/sales/{sale}/stock", (*visit).changeStock, "", "", ""},

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
