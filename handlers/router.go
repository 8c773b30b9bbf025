package handlers

import (
	"net/http"

	"fanfare/api"
	"fanfare/handlers/web"
)

// route is one line of the table.
func route(method, pattern string, scope api.Scope, e web.Endpoint) web.Route {
	return web.Route{Method: method, Pattern: pattern, Scope: scope, Endpoint: e}
}

// leadTo redirects to a path relative to the request's: http.Redirect would make it absolute, and a proxy may serve
// fanfare below a path of its own.
func leadTo(path string, status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", path)
		w.WriteHeader(status)
	})
}

// routes lists every route. For(scope) opens a route to user tokens with that scope, each for its
// own user. All other routes take API keys only.
func (s *server) routes() []web.Route {
	return []web.Route{
		route("GET", "/healthz", web.Open, web.Handle(s.getHealth).Always()),
		route("GET", "/readyz", web.Open, web.Handle(s.getReady).Always()),
		route("GET", "/metrics", web.Open, web.HandlePlain(s.getMetrics())),
		route("GET", "/openapi.json", web.Open, web.HandlePlain(s.o.Document)),
		route("GET", "/", web.Open, web.HandlePlain(leadTo("docs/", http.StatusFound))),
		route("GET", "/docs", web.Open, web.HandlePlain(leadTo("docs/", http.StatusMovedPermanently))),
		route("GET", "/docs/*", web.Open, web.HandlePlain(s.o.Docs)),
		route("GET", "/llms.txt", web.Open, web.HandlePlain(s.o.Docs)),
		route("GET", "/console", web.Open, web.HandlePlain(http.HandlerFunc(s.getConsole))),
		route("GET", "/console/*", web.Open, web.HandlePlain(http.HandlerFunc(s.getConsole))),
		route("POST", "/console/*", web.Open, web.HandlePlain(http.HandlerFunc(s.getConsole))),

		route("GET", "/v1/webpush/{topic}/key", web.Open, web.Handle(s.getPushKey)).ForPages(),

		route("GET", "/v1/stats", api.ScopeOpsRead, web.Handle(s.getStats)),
		route("GET", "/v1/about", api.ScopeOpsRead, web.Handle(s.getAbout)),
		route("GET", "/v1/stats/series", api.ScopeOpsRead, web.Handle(s.getSeries)),
		route("GET", "/v1/stats/stream", api.ScopeOpsRead, web.HandleStream(s.streamStats)),
		route("GET", "/v1/servers", api.ScopeOpsRead, web.Handle(s.listServers)),
		route("GET", "/v1/apps", api.ScopeOpsRead, web.Handle(s.listApps)),
		route("POST", "/v1/apps/{topic}/probe", api.ScopeOps, web.Handle(s.probeApps)),
		route("GET", "/v1/dead-letters", api.ScopeOpsRead, web.Handle(s.listDeadLetters)),
		route("GET", "/v1/dead-letters/groups", api.ScopeOpsRead, web.Handle(s.listDeadLetterGroups)),
		route("POST", "/v1/dead-letters/retry", api.ScopeOps, web.Handle(s.retryDeadLetters)),
		route("POST", "/v1/dead-letters/delete", api.ScopeOps, web.Handle(s.deleteDeadLetters)),
		route("POST", "/v1/dead-letters/{id}/retry", api.ScopeOps, web.Handle(s.retryDeadLetter)),
		route("DELETE", "/v1/dead-letters/{id}", api.ScopeOps, web.Handle(s.deleteDeadLetter)),

		route("GET", "/v1/facts", api.ScopeOps, web.Handle(s.listFacts).LongPoll("wait_ms")),
		route("PUT", "/v1/facts/types", api.ScopeOps, web.Handle(s.putFactTypes)),
		route("GET", "/v1/facts/types", api.ScopeOps, web.Handle(s.getFactTypes)),

		route("GET", "/v1/webhooks", api.ScopeOps, web.Handle(s.listWebhooks)),
		route("PUT", "/v1/webhooks/{id}", api.ScopeOps, web.Handle(s.putWebhook).Secret()),
		route("GET", "/v1/webhooks/{id}", api.ScopeOps, web.Handle(s.getWebhook)),
		route("DELETE", "/v1/webhooks/{id}", api.ScopeOps, web.Handle(s.deleteWebhook)),
		route("POST", "/v1/webhooks/{id}/secrets", api.ScopeOps, web.Handle(s.postWebhookSecret).Secret()),
		route("POST", "/v1/webhooks/{id}/replay", api.ScopeOps, web.Handle(s.replayWebhook)),
		route("POST", "/v1/webhooks/{id}/test", api.ScopeOps, web.Handle(s.testWebhook)),

		route("GET", "/v1/keys", api.ScopeAdmin, web.Handle(s.listKeys)),
		route("POST", "/v1/keys", api.ScopeAdmin, web.Handle(s.postKey).Secret()),
		route("DELETE", "/v1/keys/{id}", api.ScopeAdmin, web.Handle(s.deleteKey)),

		route("GET", "/v1/operations", api.ScopeOpsRead, web.Handle(s.listOperations)),
		route("GET", "/v1/operations/{id}", web.AnyKey, web.Handle(s.getOperation)),

		route("DELETE", "/v1/users/{user}", api.ScopeUsersErase, web.Handle(s.eraseUser)),
		route("POST", "/v1/users/{user}/tokens", api.ScopeTokens, web.Handle(s.postToken).Secret()),
		route("POST", "/v1/users/{user}/tokens/revoke", api.ScopeTokens, web.Handle(s.revokeTokens)),
		route("POST", "/v1/users/{user}/tickets", api.ScopeTokens, web.Handle(s.postTicket).Secret()).For(web.AnyUser),

		route("GET", "/v1/event-types", api.ScopePush, web.Handle(s.listEventTypes)),
		route("PUT", "/v1/event-types/{type}", api.ScopePush, web.Handle(s.putEventType)),
		route("GET", "/v1/event-types/{type}", api.ScopePush, web.Handle(s.getEventType)),
		route("DELETE", "/v1/event-types/{type}", api.ScopePush, web.Handle(s.deleteEventType)),

		route("POST", "/v1/events", api.ScopePush, web.Handle(s.postEvent).WithMaxBody(api.MaxEventBody)),
		route("GET", "/v1/events", api.ScopeOpsRead, web.Handle(s.listEvents)),
		route("POST", "/v1/events/batch", api.ScopePush, web.Handle(s.postEventBatch).WithMaxBody(api.MaxBatchBody)),
		route("GET", "/v1/events/{id}", api.ScopePush, web.Handle(s.getEvent)),
		route("GET", "/v1/events/{id}/users/{user}", api.ScopeOpsRead, web.Handle(s.getUserEvent)),            // and push
		route("GET", "/v1/events/{id}/notifications", api.ScopeOpsRead, web.Handle(s.listEventNotifications)), // and push
		route("POST", "/v1/events/{id}/cancel", web.AnyKey, web.Handle(s.cancelEvent)),                        // push or ops

		route("POST", "/v1/events/{id}/opened", api.ScopePush, web.Handle(s.postOpened)).For(api.UserScopeDevices),
		route("POST", "/v1/events/{id}/dismissed", api.ScopePush, web.Handle(s.postDismissed)).For(api.UserScopeDevices),

		route("POST", "/v1/devices/batch", api.ScopePush, web.Handle(s.putDevices).WithMaxBody(api.MaxDeviceBatchBody)),
		route("PUT", "/v1/users/{user}/devices/{token}", api.ScopePush, web.Handle(s.putDevice)).For(api.UserScopeDevices),
		route("POST", "/v1/users/{user}/devices", api.ScopePush, web.Handle(s.postDevice)).For(api.UserScopeDevices),
		route("GET", "/v1/users/{user}/badge", api.ScopePush, web.Handle(s.getBadge)).For(api.UserScopeDevices),
		route("PUT", "/v1/users/{user}/badge", api.ScopePush, web.Handle(s.putBadge)).For(api.UserScopeDevices),
		route("POST", "/v1/users/{user}/badge", api.ScopePush, web.Handle(s.postBadge)).For(api.UserScopeDevices),
		route("GET", "/v1/users/{user}/devices", api.ScopePush, web.Handle(s.listDevices)).For(api.UserScopeDevices),
		route("DELETE", "/v1/users/{user}/devices/{token}", api.ScopePush, web.Handle(s.deleteDevice)).For(api.UserScopeDevices),
		route("POST", "/v1/users/{user}/devices/{token}/test", api.ScopePush, web.Handle(s.testDevice)),

		route("PUT", "/v1/users/{user}/activities/{token}", api.ScopePush, web.Handle(s.putActivity)).For(api.UserScopeDevices),
		route("GET", "/v1/users/{user}/activities", api.ScopePush, web.Handle(s.listActivities)).For(api.UserScopeDevices),
		route("DELETE", "/v1/users/{user}/activities/{token}", api.ScopePush, web.Handle(s.deleteActivity)).For(api.UserScopeDevices),

		route("PUT", "/v1/users/{user}/opt-outs/{type}", api.ScopePush, web.Handle(s.putOptOut)).For(api.UserScopeDevices),
		route("DELETE", "/v1/users/{user}/opt-outs/{type}", api.ScopePush, web.Handle(s.deleteOptOut)).For(api.UserScopeDevices),
		route("PUT", "/v1/users/{user}/mutes/{object}", api.ScopePush, web.Handle(s.putMute)).For(api.UserScopeDevices),
		route("DELETE", "/v1/users/{user}/mutes/{object}", api.ScopePush, web.Handle(s.deleteMute)).For(api.UserScopeDevices),
		route("GET", "/v1/users/{user}/notification-settings", api.ScopePush, web.Handle(s.getSettings)).For(api.UserScopeDevices),

		route("PUT", "/v1/users/{user}/topics/{topic}", api.ScopePush, web.Handle(s.joinTopic)).For(api.UserScopeDevices),
		route("DELETE", "/v1/users/{user}/topics/{topic}", api.ScopePush, web.Handle(s.leaveTopic)).For(api.UserScopeDevices),
		route("GET", "/v1/users/{user}/topics", api.ScopePush, web.Handle(s.listUserTopics)).For(api.UserScopeDevices),
		route("GET", "/v1/topics", web.AnyKey, web.Handle(s.listTopics)),
		route("PUT", "/v1/topics/{topic}", api.ScopePush, web.Handle(s.putTopic)),
		route("GET", "/v1/topics/{topic}", api.ScopePush, web.Handle(s.getTopic)),
		route("POST", "/v1/topics/{topic}/users", api.ScopePush, web.Handle(s.changeTopic).WithMaxBody(api.MaxTopicBody)),
		route("GET", "/v1/topics/{topic}/users", api.ScopePush, web.Handle(s.listTopicUsers)),

		route("GET", "/v1/live/{object}", web.AnyKey, web.Handle(s.getLiveObject)), // push or ops:read
		route("GET", "/v1/broadcasts", web.AnyKey, web.Handle(s.listBroadcasts)),   // push or ops:read
		route("PUT", "/v1/broadcasts/{object}", api.ScopePush, web.Handle(s.putBroadcast)),
		route("GET", "/v1/broadcasts/{object}", web.AnyKey, web.Handle(s.getBroadcast)), // push or ops:read
		route("DELETE", "/v1/broadcasts/{object}", api.ScopePush, web.Handle(s.deleteBroadcast)),

		route("POST", "/v1/users/{user}/contacts/batch", api.ScopeContacts, web.Handle(s.putContacts).WithMaxBody(api.MaxContactBatchBody)),
		route("PUT", "/v1/users/{user}/contacts/{contact}", api.ScopeContacts, web.Handle(s.putContact)),
		route("DELETE", "/v1/users/{user}/contacts/{contact}", api.ScopeContacts, web.Handle(s.deleteContact)),
		route("GET", "/v1/users/{user}/contacts", api.ScopeContacts, web.Handle(s.listContacts)).For(api.UserScopeContacts),
		route("POST", "/v1/uploads", api.ScopeContacts, web.Handle(s.postUpload)),
		route("PATCH", "/v1/uploads/{id}", api.ScopeContacts, web.Handle(s.patchUpload)),
		route("DELETE", "/v1/uploads/{id}", api.ScopeContacts, web.Handle(s.deleteUpload)),
		route("GET", "/v1/users/{user}/recent-contacts", api.ScopeContacts, web.Handle(s.getRecentContacts)).For(api.UserScopeContacts),
		route("GET", "/v1/users/{user}/recent-contacts/uploads", api.ScopeContacts, web.Handle(s.getRecentUploads)).For(api.UserScopeContacts),
		route("POST", "/v1/users/{user}/recent-contacts/rebuild", api.ScopeContacts, web.Handle(s.rebuildRecentContacts)),

		route("POST", "/v1/chats", api.ScopeChat, web.Handle(s.createChat)),
		route("GET", "/v1/chats/{chat}", api.ScopeChat, web.Handle(s.getChat)).For(api.UserScopeChat),
		route("GET", "/v1/chats/{chat}/members", api.ScopeChat, web.Handle(s.listChatMembers)).For(api.UserScopeChat),
		route("PUT", "/v1/chats/{chat}/members/{user}", api.ScopeChat, web.Handle(s.joinChat)),
		route("DELETE", "/v1/chats/{chat}/members/{user}", api.ScopeChat, web.Handle(s.leaveChat)).For(api.UserScopeChat),
		route("POST", "/v1/chats/{chat}/messages", api.ScopeChat, web.Handle(s.postMessage).Message()).For(api.UserScopeChat),
		route("GET", "/v1/chats/{chat}/messages", api.ScopeChat, web.Handle(s.listMessages)).For(api.UserScopeChat),
		route("DELETE", "/v1/chats/{chat}/messages/{id}", api.ScopeChat, web.Handle(s.deleteMessage)).For(api.UserScopeChat),
		route("POST", "/v1/chats/{chat}/typing", api.ScopeChat, web.Handle(s.postTyping)).For(api.UserScopeChat),
		route("GET", "/v1/users/{user}/chats", api.ScopeChat, web.Handle(s.listUserChats)).For(api.UserScopeChat),
		route("GET", "/v1/users/{user}/messages/pending", api.ScopeChat, web.Handle(s.getPending).LongPoll("wait_ms")).For(api.UserScopeChat),
		route("POST", "/v1/users/{user}/messages/ack", api.ScopeChat, web.Handle(s.ackMessages)).For(api.UserScopeChat),
		route("GET", "/v1/users/{user}/messages/stream", api.ScopeChat, web.HandleStream(s.streamMessages)).For(api.UserScopeChat),

		route("POST", "/v1/queues/{queue}/jobs", api.ScopeJobs, web.Handle(s.postJob).WithMaxBody(api.MaxJobBody)),
		route("POST", "/v1/queues/{queue}/jobs/batch", api.ScopeJobs, web.Handle(s.postJobBatch).WithMaxBody(api.MaxBatchBody)),
		route("POST", "/v1/queues/{queue}/claims", api.ScopeJobsWork, web.HandleLongPoll(claimWaits, s.claimJobs)),
		route("POST", "/v1/queues/{queue}/results", api.ScopeJobsWork, web.Handle(s.postJobResults).WithMaxBody(api.MaxResultsBody)),
		route("GET", "/v1/jobs/{id}", web.AnyKey, web.Handle(s.getJob)), // jobs or jobs:work
		route("DELETE", "/v1/jobs/{id}", api.ScopeJobs, web.Handle(s.cancelJob)),
		route("GET", "/v1/queues", web.AnyKey, web.Handle(s.listQueues)),                    // jobs or ops:read
		route("GET", "/v1/queues/{queue}", web.AnyKey, web.Handle(s.getQueue)),              // jobs or ops:read
		route("GET", "/v1/queues/{queue}/series", web.AnyKey, web.Handle(s.getQueueSeries)), // jobs or ops:read
		route("POST", "/v1/queues/{queue}/pause", web.AnyKey, web.Handle(s.pauseQueue)),     // jobs or ops
		route("POST", "/v1/queues/{queue}/resume", web.AnyKey, web.Handle(s.resumeQueue)),   // jobs or ops
		route("GET", "/v1/schedules", web.AnyKey, web.Handle(s.listSchedules)),              // jobs or ops:read
		route("PUT", "/v1/schedules/{id}", api.ScopeJobs, web.Handle(s.putSchedule).WithMaxBody(api.MaxJobBody)),
		route("GET", "/v1/schedules/{id}", web.AnyKey, web.Handle(s.getSchedule)), // jobs or ops:read
		route("DELETE", "/v1/schedules/{id}", api.ScopeJobs, web.Handle(s.deleteSchedule)),

		route("POST", "/v1/locks/{lock}/acquire", api.ScopeLocks, web.HandleLongPoll(acquireWaits, s.acquireLock)),
		route("POST", "/v1/locks/{lock}/renew", api.ScopeLocks, web.Handle(s.renewLock)),
		route("POST", "/v1/locks/{lock}/done", api.ScopeLocks, web.Handle(s.finishLock)),
		route("POST", "/v1/locks/{lock}/fail", api.ScopeLocks, web.Handle(s.failLock)),
		route("POST", "/v1/locks/{lock}/release", api.ScopeLocks, web.Handle(s.releaseLock)),
		route("GET", "/v1/locks/{lock}", api.ScopeLocks, web.Handle(s.getLock)),

		route("PUT", "/v1/values/{value}", api.ScopeValues, web.Handle(s.putValue)),
		route("GET", "/v1/values/{value}", api.ScopeValuesRead, web.Handle(s.getValue).LongPoll("wait_ms")),
		route("DELETE", "/v1/values/{value}", api.ScopeValues, web.Handle(s.deleteValue)),
		route("PUT", "/v1/counters/{counter}", api.ScopeValues, web.Handle(s.putCounter)),
		route("GET", "/v1/counters/{counter}", api.ScopeValuesRead, web.Handle(s.getCounter)),
		route("DELETE", "/v1/counters/{counter}", api.ScopeValues, web.Handle(s.deleteCounter)),
		route("POST", "/v1/counters/{counter}/add", api.ScopeValues, web.Handle(s.addToCounter)),

		route("GET", "/v1/sales", api.ScopeSales, web.Handle(s.listSales)),
		route("PUT", "/v1/sales/{sale}", api.ScopeSales, web.Handle(s.putSale)),
		route("GET", "/v1/sales/{sale}", api.ScopeSalesBuy, web.Handle(s.getSale)).For(api.UserScopeBuy),
		route("DELETE", "/v1/sales/{sale}", api.ScopeSales, web.Handle(s.deleteSale)),
		route("POST", "/v1/sales/{sale}/stock", api.ScopeSales, web.Handle(s.postStock)),
		route("POST", "/v1/sales/{sale}/reservations", api.ScopeSalesBuy, web.Handle(s.postReservation)).For(api.UserScopeBuy),
		route("GET", "/v1/sales/{sale}/reservations", api.ScopeSalesBuy, web.Handle(s.listReservations)).For(api.UserScopeBuy),
		route("GET", "/v1/sales/{sale}/reservations/{id}", api.ScopeSalesBuy, web.Handle(s.getReservation)).For(api.UserScopeBuy),
		route("POST", "/v1/sales/{sale}/reservations/{id}/confirm", api.ScopeSalesBuy, web.Handle(s.confirmReservation)).For(s.confirming),
		route("POST", "/v1/sales/{sale}/reservations/{id}/release", api.ScopeSalesBuy, web.Handle(s.releaseReservation)).For(api.UserScopeBuy),
		route("POST", "/v1/sales/{sale}/reservations/{id}/extend", api.ScopeSalesBuy, web.Handle(s.extendReservation)),
		route("GET", "/v1/sales/{sale}/orders", api.ScopeSales, web.Handle(s.listOrders)),
		route("GET", "/v1/sales/{sale}/stream", api.ScopeSalesBuy, web.HandleStream(s.streamSale)).For(api.UserScopeBuy),
	}
}
