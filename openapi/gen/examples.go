package main

import (
	"strings"

	"fanfare/api"
)

// example is a body that the call accepts unchanged; "Try it out" starts with it. It is nil for calls whose body the examples
// of its properties make. In their order the examples are a tour: register a type and a device, post events, read the report.
func example(operationID string) any {
	switch operationID {
	case "putEventType":
		return map[string]any{
			"title": "New photo", "body": "{{.actor}} shared {{.data.album}}", "sound": "default", "ttl_seconds": 3600,
		}
	case "putDevice":
		return map[string]any{
			"platform": "apns", "topic": "com.example.app", "environment": string(api.EnvSandbox),
		}
	case "putActivity":
		return map[string]any{
			"platform": "apns", "topic": "com.example.app", "environment": string(api.EnvSandbox), "kind": string(api.ActivityUpdate), "object": "match:7",
		}
	case "postDevice":
		return map[string]any{
			"platform": string(api.PlatformWebPush), "topic": "shop",
			"subscription": map[string]any{
				"endpoint": "https://fcm.googleapis.com/fcm/send/cAb3-xyz", "expirationTime": nil,
				"keys": map[string]any{ // those of RFC 8291's example
					"p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4", "auth": "BTBZMqHH6r4Tts7J_aSIgg",
				},
			},
		}
	case "putDevices":
		return map[string]any{"devices": []any{deviceExample("bob", "a"), deviceExample("carol", "b")}}
	case "retryDeadLetters", "deleteDeadLetters":
		return map[string]any{"reason": "BadPath", "type": "photo.shared", "before": "2026-01-02T15:04:05.000Z", "expect": 12}
	case "postEvent":
		return eventExample("bob")
	case "postEventBatch":
		return map[string]any{"events": []any{eventExample("bob"), eventExample("carol")}}
	case "putBroadcast":
		return map[string]any{"topic": "com.example.app", "environment": string(api.EnvSandbox), "keep": "none", "ends_at": later}
	case "changeTopic":
		return map[string]any{"add": []any{"bob", "carol"}, "remove": []any{"dave"}}
	case "putContacts":
		return map[string]any{"contacts": []any{
			map[string]any{"contact": "bob", "relationship": "friend"}, map[string]any{"contact": "carol", "relationship": "family"},
		}}
	case "postUpload":
		return map[string]any{"id": "photo:42", "owner": "alice", "visibility": "public"}
	case "patchUpload":
		return map[string]any{"visibility": "friends"}
	case "createChat":
		return map[string]any{"id": "team", "creator": "alice", "members": []any{"bob", "carol"}, "message": "hello"}
	case "putBadge":
		return map[string]any{"count": 0, "clear": true}
	case "ackMessages":
		return map[string]any{"acks": map[string]any{"team": 1, "family": 7}}
	case "putSale":
		return map[string]any{
			"items":     []any{map[string]any{"sku": "sneaker:42", "stock": 100}},
			"starts_at": "2026-01-01T00:00:00.000Z", "ends_at": "2126-01-01T00:00:00.000Z", "per_user_limit": 2,
		}
	case "putFactTypes":
		return map[string]any{"types": []any{"event.done", "notification.failed"}}
	case "putWebhook":
		return map[string]any{"url": "https://shop.example.com/hooks/fanfare", "types": []any{"event.done"}}
	case "replayWebhook":
		return map[string]any{"after": "AQiIw52xtjMA-gEAAAAAAAAA"}
	case "putValue":
		return map[string]any{"value": map[string]any{"theme": "dark"}, "ttl_seconds": 86400}
	case "putCounter":
		return map[string]any{"value": 0, "min": 0, "max": 100}
	case "addToCounter":
		return map[string]any{"delta": 1}
	case "postJob":
		return jobExample("customer:42")
	case "postJobBatch":
		return map[string]any{"jobs": []any{jobExample("customer:42"), jobExample("customer:43")}}
	case "claimJobs":
		return map[string]any{"worker": "mailer-1", "types": []any{"send_invoice"}, "max": 10, "lease_ms": 30000, "wait_ms": 1000}
	case "putSchedule":
		schedule := jobExample("report:daily")
		schedule["queue"], schedule["cron"], schedule["time_zone"] = "emails", "30 6 * * mon-fri", "Europe/Berlin"
		return schedule
	case "postJobResults":
		return map[string]any{"results": []any{
			map[string]any{"id": "emails.06f8k2m3v0q7d1h9r5t4u2s8ao", "token": "1767366245000000", "outcome": "complete"},
		}}
	case "acquireLock":
		return map[string]any{"lease_ms": 30000, "wait_ms": 1000, "max_attempts": 8}
	default:
		return nil
	}
}

func jobExample(key string) map[string]any {
	return map[string]any{"type": "send_invoice", "payload": map[string]any{"month": "2026-01"}, "key": key, "max_attempts": 8}
}

// deviceExample is a device whose token repeats a digit.
func deviceExample(user, digit string) map[string]any {
	return map[string]any{
		"user": user, "token": strings.Repeat(digit, api.MinTokenHex), "platform": "apns", "topic": "com.example.app", "environment": string(api.EnvSandbox),
	}
}

func eventExample(user string) map[string]any {
	return map[string]any{
		"type": "photo.shared", "actor": "alice", "object": "album:42",
		"audience": map[string]any{"users": []any{user}},
		"data":     map[string]any{"album": "Summer"},
		"alert":    map[string]any{"title": "New photo", "body": "alice shared Summer"},
	}
}

// activityToken is the token of an activity in examples.
const activityToken = "80fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"

// parameterExample is a value of a path parameter that fits the examples of bodies.
func parameterExample(name string) any {
	switch name {
	case "type":
		return "photo.shared"
	case "user":
		return "bob"
	case "contact":
		return "alice"
	case "object":
		return "album:42"
	case "sale":
		return "spring"
	case "queue":
		return "emails"
	case "lock":
		return "report:2026-01"
	case "value":
		return "settings:web"
	case "counter":
		return "downloads:2026-01"
	case "topic":
		return "news"
	case "token":
		return "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
	default:
		return nil // made by the server
	}
}
