package site

import (
	"path"
	"strings"
)

// group is a part of the menu.
type group struct {
	Name string
	// quiet: the search shows its sections after those of other groups.
	quiet bool
	docs  []document
}

// document is a Markdown file of the repository, and one line about it for llms.txt and search engines.
type document struct{ file, about string }

// menu lists the documents in the order in which the menu shows them. A test finds files that are missing here.
func menu() []group {
	return []group{
		{Name: "Start", docs: []document{
			{"README.md", "what fanfare is, a tour of all parts with curl, measurements, and where the rest is"},
			{"docs/start/parts.md", "which part of fanfare is for what, and which of two to take"},
			{"docs/start/backend.md", "from nothing to a push, a chat and a sale with curl, TypeScript, Python and Go"},
			{"docs/start/web.md", "a page with a chat and a sale, and notifications in browsers"},
			{"docs/start/ios.md", "an app registers its phone, chats and reserves, in Swift"},
			{"docs/start/android.md", "an app registers its phone, chats and reserves, in Kotlin"},
			{"docs/start/moving.md", "moving in from gorush, topics of FCM, OneSignal and Amazon Pinpoint"},
			{"docs/start/comparison.md", "when to take gorush, Centrifugo, Sockudo, asynq, River or OneSignal instead"},
		}},
		{Name: "Guides", docs: []document{
			{"docs/user-access.md", "how apps and pages call fanfare themselves: user tokens, tickets, streams, origins"},
			{"docs/live.md", "Live Activities on iPhones and Live Updates on Android: register, start, update and end them"},
			{"docs/jobs.md", "queues of jobs: workers in Python, TypeScript and Go, leases, retries, conflict keys, schedules"},
			{"docs/locks.md", "locks with leases, counted attempts and fences, and a worker that uses one"},
			{"docs/go-client.md", "the client in Go: calls that repeat safely, streams that go on, workers"},
			{"docs/webhooks.md", "what happened, sent to your backend in signed batches, again until it is taken"},
			{"docs/facts.md", "read what happened to events, notifications and jobs, instead of asking again and again"},
			{"docs/opened.md", "count who opens notifications: what the app tells, and where the numbers and the facts are"},
			{"docs/values.md", "values that are compared and set and waited for; counters with bounds"},
		}},
		{Name: "Clients", docs: []document{
			{"clients/typescript/README.md", "a client in TypeScript for Node and browsers: calls, streams, workers, Web Push"},
			{"clients/python/README.md", "a client in Python, of the standard library alone: calls, streams, workers"},
			{"clients/kotlin/README.md", "a client in Kotlin for Android apps: devices, settings, topics, chats, reservations"},
			{"clients/swift/README.md", "a client in Swift for apps on iOS and macOS: devices, settings, topics, chats, reservations"},
		}},
		{Name: "Operating", docs: []document{
			{"docs/configuration.md", "every environment variable; real Redis and databases, several processes, credentials of APNs"},
			{"docs/operations.md", "deploying, updating, moving in, keys, FCM and Web Push, backups"},
			{"docs/runbook.md", "what you see when something is wrong, and the commands that examine and repair it"},
			{"docs/proxies.md", "nginx, Caddy, a Gateway or an Ingress in front of fanfare"},
			{"docs/scaling.md", "what to add and when, with the arithmetic"},
			{"docs/monitoring/README.md", "metrics, alert rules for Prometheus, a dashboard for Grafana"},
			{"docs/monitoring/log.md", "all warnings and errors of the log, and the keys of its lines"},
		}},
		{Name: "Reference", docs: []document{
			{"docs/spec/http.md", "the HTTP contract: paths, fields, errors, keys and scopes, idempotency"},
		}},
		{Name: "Promises", docs: []document{
			{"docs/spec/README.md", "what is promised and what is not, and what happens when something fails"},
			{"docs/spec/push.md", "promises P and A: accepting and targeting events, sending them through APNs"},
			{"docs/spec/platforms.md", "promises W: FCM and Web Push beside APNs"},
			{"docs/spec/contacts.md", "promises R: recent contacts"},
			{"docs/spec/chat.md", "promises C: group chat and its streams"},
			{"docs/spec/sale.md", "promises S: stock, reservations and orders of a flash sale"},
			{"docs/spec/jobs.md", "promises J: queues of jobs over HTTP"},
			{"docs/spec/locks.md", "promises L: locks over HTTP"},
			{"docs/spec/queue-and-lock.md", "promises K and Q: the lock and the durable queue inside"},
			{"docs/spec/values.md", "promises V: values and counters"},
			{"docs/spec/access.md", "promises U: user tokens, tickets, pages of other origins"},
			{"docs/spec/users.md", "promises E: operations, and erasing a user"},
			{"docs/spec/console.md", "promises N: what operators look at and mend"},
			{"docs/spec/live.md", "promises B, D and G: badges, notifications without a script, events that are only tried, Live Activities"},
			{"docs/spec/opened.md", "promises O: who opened notifications"},
			{"docs/spec/facts.md", "promises H: what happened, to read"},
			{"docs/spec/webhooks.md", "promises H: what happened, to be sent"},
			{"docs/spec/traces.md", "promises T: spans of calls and of what they lead to"},
		}},
		{Name: "Project", quiet: true, docs: []document{
			{"ARCHITECTURE.md", "packages, journeys through the code, where things are decided, a glossary"},
			{"docs/decisions.md", "what was chosen, what was measured, what was tried and dropped"},
			{"docs/dependencies.md", "the modules that fanfare uses, and why"},
			{"CONTRIBUTING.md", "set-up, how to add things, how tests are written"},
			{"SECURITY.md", "how to report a vulnerability, and what is defended against whom"},
			{"CHANGELOG.md", "what changed in each version"},
			{"bench/RESULTS.md", "all results of the benchmarks"},
		}},
	}
}

// enclosed are the other files that documents link to and the site serves, by their ending.
var enclosed = map[string]string{
	".png": "image/png", ".yml": "text/plain; charset=utf-8", ".json": "application/json",
	".html": "text/plain; charset=utf-8", // an example: its source is what a reader wants
}

// short is a file's path without the folder of documents, and without that of results.
func short(file string) string {
	return strings.TrimPrefix(strings.TrimPrefix(file, "docs/"), "bench/")
}

// place is the path of a document's page below /docs/: "jobs" for docs/jobs.md, "spec/" for docs/spec/README.md, and
// "" for README.md.
func place(file string) string {
	dir, base := path.Split(short(file))
	if base == "README.md" {
		return dir
	}
	if dir == "" { // files at the root of the repository have names in capitals
		base = strings.ToLower(base)
	}
	return dir + strings.TrimSuffix(base, ".md")
}
