package main

import "strings"

// samples has values of properties for the examples of answers. "Schema.name" takes precedence over
// "name", and both take precedence over the example of the Go field. nil means no example: an
// optional property is then left out.
var samples = map[string]any{
	"acked":                      6,
	"Acks.acked":                 map[string]any{"team": 7},
	"attempts":                   8,
	"Availability.available":     map[string]any{"sneaker:42": 97},
	"Availability.state":         "open",
	"complete":                   true,
	"Dependency.name":            "redis",
	"Dependency.state":           "ok",
	"delivered":                  2,
	"delivered_per_second":       42.5,
	"Device.token":               parameterExample("token"),
	"Device.topic":               "com.example.app",
	"Device.platform":            "apns",
	"Device.origin":              nil,
	"dropped_at":                 nil,
	"epoch":                      "XK4T3YRN5WAHBCDEFGQV7Z2M6J",
	"DeadLetter.id":              "5-1767366245000-0",
	"DeadLetter.type":            nil,
	"DeadLetter.app":             nil,
	"DeadLetterGroup.kind":       "notification",
	"DeadLetterGroup.reason":     "BadPath",
	"DeadLetterGroup.type":       "photo.shared",
	"DeadLetterGroup.app":        "com.example.app/production",
	"DeadLetterGroup.count":      12,
	"DeadLetterRetried.id":       "5-1767366245000-0",
	"EventAccepted.id":           "3-QV7Z2M6JKX4T3YRN5WAHBCDEFG",
	"EventReport.id":             "3-QV7Z2M6JKX4T3YRN5WAHBCDEFG",
	"EventReport.state":          "done",
	"ListedEvent.id":             "3-QV7Z2M6JKX4T3YRN5WAHBCDEFG",
	"ListedEvent.state":          "done",
	"UserEvent.id":               "3-QV7Z2M6JKX4T3YRN5WAHBCDEFG",
	"UserEvent.user":             "bob",
	"UserEvent.state":            "done",
	"UserEvent.notifications":    nil,
	"UserEvent.outcomes_kept":    true,
	"UserNotification.token":     parameterExample("token"),
	"UserNotification.platform":  "apns",
	"UserNotification.state":     "failed",
	"UserNotification.reason":    "BadDeviceToken",
	"UserNotification.at":        "2026-01-02T15:04:05.000Z",
	"UserNotification.until":     nil,
	"Rebuild.id":                 "019ab2f4-7c1e-7d30-9a55-0c6f1b8e2d47",
	"Operation.id":               "019ab2f4-7c1e-7d30-9a55-0c6f1b8e2d47",
	"Operation.action":           "users.erase",
	"Operation.state":            "done",
	"Operation.removed":          map[string]any{"devices": 2, "messages": 31},
	"Operation.kept":             map[string]any{"orders": 1},
	"Reservation.id":             "QV7Z2M6JKX4T3YRN5WAHBCDEFG",
	"reservation":                "QV7Z2M6JKX4T3YRN5WAHBCDEFG",
	"ChatMessage.id":             7,
	"ChatMessageSent.id":         7,
	"StreamMessage.id":           7,
	"StreamRedacted.id":          7,
	"StreamMessageEvent.id":      streamID,
	"StreamRedactedEvent.id":     streamID,
	"StreamGapEvent.id":          streamID,
	"EventType.push_type":        "alert",
	"EventType.collapse":         true,
	"EventType.localized":        nil,
	"EventType.fcm":              nil,
	"EventType.webpush":          nil,
	"EventType.retry_unknown":    true,
	"RecentUpload.id":            "photo:42",
	"first_id":                   1,
	"last_id":                    7,
	"last_error":                 "the database did not answer in time",
	"latency_ms":                 0.4,
	"member_count":               3,
	"notifications":              2,
	"object":                     "album:42",
	"opt_outs":                   []any{"photo.shared"},
	"QueueStats.name":            "notifications",
	"QueueStats.wakeup_ms":       0.8,
	"DeadLetter.kind":            "job",
	"DeadLetter.payload":         map[string]any{"sale": "spring"},
	"DeadLetter.reason":          "max_attempts",
	"Problem.event_type":         nil,
	"Problem.sale":               nil,
	"ready":                      true,
	"recipients":                 2,
	"revision":                   1,
	"Sale.per_user_limit":        2,
	"Sale.idle_ms":               60000,
	"Sale.max_hold_ms":           1800000,
	"Sale.state":                 "open",
	"type":                       "photo.shared",
	"Problem.type":               "urn:fanfare:problem:validation_failed",
	"unread":                     1,
	"Key.id":                     "mfrggzdfmztwq2lknnwg23tpoa",
	"Key.name":                   "dashboard",
	"Key.scopes":                 []any{"ops:read"},
	"NewKey.id":                  "mfrggzdfmztwq2lknnwg23tpoa",
	"NewKey.name":                "dashboard",
	"NewKey.scopes":              []any{"ops:read"},
	"NewKey.key":                 "ff_mfrggzdfmztwq2lknnwg23tpoa_nb2wk3tsmvzwk3ttorqxe5a",
	"NewKey.last_used_at":        nil,
	"revoked_at":                 nil,
	"App.topic":                  "com.example.app",
	"App.environment":            "production",
	"App.state":                  "paused",
	"App.platform":               "apns",
	"App.reason":                 "InvalidProviderToken",
	"since":                      "2026-01-02T15:04:05.000Z",
	"App.waiting":                31,
	"ProbeAccepted.topic":        "com.example.app",
	"Server.id":                  "web-1.QV7Z2M6JKX4T3YRN5WAHBCDEFG",
	"Server.version":             "v1.2.3",
	"Server.roles":               []any{"api", "targeting", "delivery", "jobs"},
	"Server.shards":              []any{0, 1, 2, 3, 4, 5, 6, 7},
	"Ticket.ticket":              "QV7Z2M6JKX4T3YRN5WAHBCDEFG",
	"Token.token":                "eyJhbGciOiJFUzI1NiIsImtpZCI6ImZmLjEifQ.eyJzdWIiOiJib2IifQ.c2lnbmF0dXJl",
	"RecentUploads.contact":      "alice",
	"RecentContact.contact":      "alice",
	"RecentContact.relationship": "friend",
	"SaleRequest.items":          nil,
	"until":                      later,
	"send_at":                    nil,
	"expires_at":                 later,
	"ends_at":                    later,
}

// streamID is an id of an event of a stream of messages, as a reader sees it.
const streamID = "AgEAB3RlYW0HAAAAAAAAAAc"

// later is a time far in the future.
const later = "2126-01-02T15:04:05.000Z"

// sample is the value of a property in the examples of answers. own is the example of the Go field.
func sample(schema, name string, own any) any {
	for _, key := range []string{schema + "." + name, name} {
		if value, known := samples[key]; known {
			return value
		}
	}
	if own == nil && strings.HasSuffix(name, "_at") {
		return "2026-01-02T15:04:05.000Z"
	}
	return own
}

// ownState has the values by which the answer of a call differs from other answers of the same type.
var ownState = map[string]map[string]any{
	"confirmReservation": {"state": "sold"},
	"releaseReservation": {"state": "released"},
}
