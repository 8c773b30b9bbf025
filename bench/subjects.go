package main

import (
	"slices"
	"strings"
)

// section is a table of the results.
type section struct {
	heading  string
	rounds   int      // at most; 0: as many as the options say
	head     []string // of the table
	subjects []subject
	whole    bool // none of its subjects was left out
}

// subject is a group of measurements that can be run by name. It has rows whose figures it measures,
// or a line of figures for each size.
type subject struct {
	name    string
	measure func(*world) sample
	rows    []want
	sizes   []int
	line    func(w *world, size int) []float64
	// profiles are the sides that -profile accepts.
	profiles []string
}

// subjects are all subjects of some sections.
func subjects(of []section) (all []subject) {
	for _, s := range of {
		all = append(all, s.subjects...)
	}
	return all
}

// run measures the subject and returns its rows, and the lines of the table. For each size everything
// is set up anew, and a quick run measures only the first sizes.
func (s *subject) run(w *world) (rows []row, lines [][]string) {
	for i, size := range s.sizes {
		if w.quick && i == 2 {
			break
		}
		whole, _, _ := strings.Cut(figure(float64(size)), ".")
		line := []string{whole}
		for _, v := range s.line(w, size) {
			line = append(line, figure(v))
		}
		lines = append(lines, line)
		w.reset()
	}
	if s.line != nil {
		return nil, lines
	}
	found := s.measure(w)
	for _, r := range s.rows {
		measured := row{r, found[r.ours], found[r.base]}
		measured.check()
		rows, lines = append(rows, measured), append(lines, measured.cells())
	}
	return rows, lines
}

// Baselines that several rows share.
const (
	stock    = "stock apns2 in a loop"
	stockFar = "stock apns2 in a loop, 4 connections, 4,000 callers"
	atOnce   = "at once"
	xadd     = "bare chi handler, one ungathered XADD"
	zrange   = "bare chi handler, one ZREVRANGE"
	hgetall  = "bare chi handler, one HGETALL"
	oneOf1   = "one process, 1 partition"
	peer     = "asynq v0.26"
	river    = "River v0.51 on PostgreSQL, synchronous_commit off"
	byHand   = "bare chi handler, a stream by hand"
	cached   = "all cached"
	// followed100k is what the other fan-outs from SQL are compared with.
	followed100k = "contacts_of, 100,000 devices"
)

// sections are the sections with rows.
func sections() []section { return []section{pushSection(), farSection(), storesSection()} }

func pushSection() section {
	return section{heading: "Push", head: rowHead, subjects: []subject{
		{name: "accept", measure: accept, profiles: []string{"accept"}, rows: []want{
			{"POST /v1/events accepted, 64 callers, API role alone", "accept rate", "/s", "bare rate", xadd, ">= 1"},
			{"POST /v1/events accepted, 64 callers, API role alone, p99", "accept p99", "ms", "bare p99", xadd, "<= 1"},
		}},
		{name: "push", measure: push, profiles: []string{"one", "batch", "ten", "wide", "fans"}, rows: []want{
			{"delivered, one event per POST, one device", "one rate", "/s", "stock rate", stock, ">= 0.5"},
			{"delivered, 100 events per batch POST", "batch rate", "/s", "stock rate", stock, ">= 1"},
			{"delivered, one event to 10 devices", "ten rate", "/s", "stock rate", stock, ">= 1"},
			{"delivered, one event to 2,000 devices", "wide rate", "/s", "stock rate", stock, ">= 1.2"},
			{"delivered, one event to 100,000 devices", "fans rate", "/s", "stock rate", stock, ">= 1.2"},
			{"push stage alone (delivery/apns, no queue)", "stage rate", "/s", "stock rate", stock, ">= 1.8"},
			{"Redis, processor time per one-device event at saturation", "one redis", "µs", "", "", "<= 25 µs"},
			{"fanfare, processor time per one-device event at saturation", "one fanfare", "µs", "", "", "<= 90 µs"},
		}},
		{name: "badges", measure: badges, profiles: []string{"none", "badge"}, rows: []want{
			{"delivered, one event per POST, one device, of a type that raises the badge", "badge rate", "/s", "none rate", "of a type without a badge", ">= 0.85"},
		}},
		{name: "facts", measure: facts, profiles: []string{"off", "on", "hook"}, rows: []want{
			{"delivered, one event per POST, one device, with event.done told", "on rate", "/s", "off rate", "without facts", ">= 0.9"},
			{"the same, with event.done sent to a webhook", "hook rate", "/s", "off rate", "without facts", ">= 0.9"},
		}},
		{name: "webhooks", measure: webhooks, rows: []want{
			{"facts to one webhook, 5,000 events a second end for 10 s", "much rate", "/s", "", "", ""},
			{"the same, from the last POST to the last fact", "much lag", "ms", "", "", ""},
			{"facts to a webhook at 200/s, end of the event to arrival, p99, while another one's receiver refuses connections",
				"refused p99", "ms", "", "", "<= 1000 ms"},
			{"the same, while it hangs", "hung p99", "ms", "", "", "<= 1000 ms"},
		}},
		{name: "audiences", measure: audiences, rows: []want{
			{"delivered, one event to a topic of 100,000 devices", "topic rate", "/s", "contacts rate", followed100k, ">= 0.95"},
			{"delivered, one event to all users, 100,000 devices", "all rate", "/s", "contacts rate", followed100k, ">= 0.95"},
		}},
		{name: "activities", measure: activities, rows: []want{
			{"delivered, one update of an object to 10,000 activities", "update rate", "/s", "fan-out rate", "contacts_of, 10,000 devices", ">= 0.9"},
		}},
		{name: "platforms", measure: platforms, rows: []want{
			{"delivered to FCM, 100 events per batch POST", "fcm 0 rate", "/s", "apns 0 rate", "the same to APNs, same stand-in", ">= 0.9"},
			{"delivered to browsers, 100 events per batch POST", "webpush 0 rate", "/s", "apns 0 rate", "the same to APNs, same stand-in", ">= 0.4"},
			{"the same to APNs, answers after 100 ms", "apns 100 rate", "/s", "apns 0 rate", atOnce, ""},
			{"the same to FCM, answers after 100 ms, while its requests grow by a tenth a second", "fcm 100 rate", "/s", "fcm 0 rate", atOnce, ""},
			{"the same to browsers, answers after 100 ms", "webpush 100 rate", "/s", "webpush 0 rate", atOnce, ""},
		}},
		{name: "latency", measure: latency, rows: []want{
			{"POST to arrival at 200/s, p50", "ours p50", "ms", "", "", "<= 0.8 ms"},
			{"POST to arrival at 200/s, p99", "ours p99", "ms", "", "", "<= 3 ms"},
		}},
		{name: "broadcast", measure: broadcasts, rows: []want{
			{"requests to APNs for an update to 1,000,000 subscribers of a channel", "update requests", "", "", "", "<= 1"},
			{"the same, POST to arrival at 200/s, p50", "update p50", "ms", "", "", ""},
			{"the same, p99", "update p99", "ms", "", "", ""},
		}},
		{name: "queue", measure: queues, rows: []want{
			{"queue, no-op jobs, enqueue (100 a call) and process", "batches rate", "/s", "asynq singles rate", peer, ">= 8"},
			{"the same, one job a call, 64 callers", "singles rate", "/s", "asynq singles rate", peer, ""},
			{"queue, enqueue to handler at 200/s, p50", "pick-up p50", "ms", "asynq pick-up p50", peer, "<= 0.3 ms"},
		}},
		{name: "memory", measure: memory, rows: []want{
			{"memory of fanfare with 1,000,000 notifications waiting for APNs, peak", "peak", "MiB", "", "", "<= 94 MiB"},
			{"Redis, memory per waiting one-device event, each for a device of its own", "first", "bytes", "", "", "<= 400 bytes"},
			{"the same, for devices for which others wait already", "rest", "bytes", "", "", ""},
			{"Redis, memory that an ended one-device event leaves for its retention", "kept", "bytes", "", "", "<= 400 bytes"},
		}},
	}}
}

func farSection() section {
	return section{heading: "Far", rounds: 3, head: rowHead, subjects: []subject{
		{name: "far", measure: far, rows: []want{
			{"one device an event, 100 a batch, answers after 0 ms", "batch 0 rate", "/s", "stock-far 0 rate", stockFar, ""},
			{"one device an event, 100 a batch, answers after 100 ms", "batch 100 rate", "/s", "stock-far 100 rate", stockFar, ">= 1"},
			{"one device an event, 100 a batch, answers after 300 ms", "batch 300 rate", "/s", "stock-far 300 rate", stockFar, ">= 1"},
			{"the same, answers after 100 ms", "batch 100 rate", "/s", "batch 0 rate", atOnce, ">= 0.8"},
			{"the same, answers after 300 ms", "batch 300 rate", "/s", "batch 0 rate", atOnce, ">= 0.6"},
			{"one event to 2,000 devices, answers after 100 ms", "wide 100 rate", "/s", "wide 0 rate", atOnce, ">= 0.8"},
			{"one event to 2,000 devices, answers after 300 ms", "wide 300 rate", "/s", "wide 0 rate", atOnce, ">= 0.6"},
			{"Redis, processor time per one-device event at saturation, 100 ms", "one 100 redis", "µs", "", "", "<= 35 µs"},
			{"entries of streams per one-device event, 100 a batch, 100 ms", "batch 100 entries", "", "", "", "<= 1.05"},
			{"entries of streams per one-device event, one per POST, 100 ms", "one 100 entries", "", "", "", "<= 1.05"},
		}},
		{name: "burst", measure: bursts, rows: []want{
			{"first 3 s of a burst, no connection, one device an event, 100 a batch, 100 ms", "batch 100 rate", "/s", "stock-burst 100 rate", stockFar, ">= 0.9"},
			{"the same, 300 ms", "batch 300 rate", "/s", "stock-burst 300 rate", stockFar, ">= 1"},
			{"first 3 s of a burst, no connection, events to 2,000 devices, 100 ms", "wide 100 rate", "/s", "stock-burst 100 rate", stockFar, ">= 1.5"},
			{"the same, 300 ms", "wide 300 rate", "/s", "stock-burst 300 rate", stockFar, ">= 1.5"},
		}},
		{name: "far-processes", measure: farProcesses, rows: []want{
			{"one event to 100,000 devices, 100 ms, room for 500 requests a process, two processes", "2", "/s", "1", "one process", ">= 1.7"},
			{"one event to 100,000 devices, 100 ms, room for 500 requests a process, four", "4", "/s", "1", "one process", ">= 3"},
		}},
		{name: "far-latency", measure: farLatency, rows: []want{
			{"one-user events at 50/s from POST to arrival, p99, while 100,000 devices of their app are sent to at 100 ms",
				"lone same", "ms", "", "", "<= 100 ms"},
			{"one-user events at 50/s from POST to arrival, p99, while another app hangs, from its third second on",
				"lone other", "ms", "", "", "<= 20 ms"},
		}},
		{name: "far-memory", measure: farMemory, rows: []want{
			{"memory of fanfare with 1,000,000 events waiting, 300 ms, peak", "far peak", "MiB", "", "", "<= 128 MiB"},
		}},
		{name: "cold", measure: cold, rows: []want{
			{"one event to 100,000 devices, nobody cached, SQLite", "sqlite cold rate", "/s", "sqlite warm rate", cached, ">= 0.6"},
			{"one event to 100,000 devices, nobody cached, MariaDB", "mysql cold rate", "/s", "mysql warm rate", cached, ">= 0.6"},
			{"Redis, memory per recipient of that event, peak", "sqlite cold peak", "bytes", "", "", "<= 200 bytes"},
			{"Redis, memory per recipient of that event, right after its end", "sqlite cold left", "bytes", "", "", "<= 60 bytes"},
			{"Redis, processor time per recipient, nobody cached", "sqlite cold redis", "µs", "sqlite warm redis", cached, ""},
		}},
	}}
}

func storesSection() section {
	return section{heading: "Stores", head: rowHead, subjects: []subject{
		{name: "sale", measure: sales, profiles: []string{"reserve", "refuse"}, rows: []want{
			{"reservation, 64 buyers, one item", "reserve rate", "/s", "script rate", "bare chi handler, one ungathered EVALSHA", ">= 1"},
			{"reservation at half the highest rate, p99", "half p99", "ms", "", "", "<= 5 ms"},
			{"refusal after sold out", "refuse rate", "/s", "json rate", "bare chi handler that decodes and answers JSON, no Redis", ">= 0.7"},
		}},
		{name: "processes", measure: saleProcesses, rows: []want{
			{"reservation on 3 API processes, 1 partition", "whole rate", "/s", "once rate", oneOf1, ">= 1"},
			{"reservation on 3 API processes, 8 partitions", "split rate", "/s", "once rate", oneOf1, ">= 1"},
		}},
		{name: "chat", measure: chats, profiles: []string{"chat"}, rows: []want{
			{"chat send, 64 chats, 64 callers", "chat rate", "/s", "bare rate", "bare chi handler, one EVALSHA", ">= 0.9"},
		}},
		{name: "chat-store", measure: chatStore, rows: []want{
			{"chat send, 16 senders, one chat, store alone", "ours rate", "/s", "lock rate", "SET NX lock, INCR, ZADD, unlock", ">= 9"},
		}},
		{name: "contacts", measure: contacts, profiles: []string{"recent"}, rows: []want{
			{"recent-contacts, 64 callers, SQLite", "recent rate", "/s", "bare rate", zrange, ">= 0.5"},
			{"recent-contacts, 64 callers, MariaDB", "mariadb rate", "/s", "bare rate", zrange, ">= 0.4"},
			{"recent-contacts with 100,000 contacts, one caller, p50", "big p50", "ms", "small p50", "with 10 contacts", "<= 1.2"},
			{"upload, indexes of its followers, MariaDB", "upload rate", "/s", "", "", ">= 100000/s"},
		}},
		{name: "moving-in", measure: movingIn, profiles: []string{"devices", "contacts"},
			rows: slices.Concat(movingRows("", "SQLite"), movingRows("mariadb ", "MariaDB"))},
		{name: "reads", measure: reads, profiles: []string{"event"}, rows: []want{
			{"GET /v1/events/{id}", "event rate", "/s", "event hash rate", hgetall, ">= 0.8"},
			{"GET /v1/sales/{id}", "sale rate", "/s", "sale hash rate", hgetall, ">= 0.8"},
		}},
		{name: "jobs", measure: jobs, profiles: []string{"hundreds", "singles"}, rows: []want{
			{"jobs over HTTP, enqueue, claim and complete, 100 a call", "hundreds rate", "/s", "bare hundreds rate", byHand, ">= 0.5"},
			{"the same, beside asynq in one process", "hundreds rate", "/s", "asynq rate", peer, ">= 8"},
			{"the same, beside River in one process", "hundreds rate", "/s", "river hundreds rate", river, ""},
			{"the same, one a call, 64 callers", "singles rate", "/s", "bare singles rate", byHand, ">= 0.7"},
			{"the same, one a call, beside River in one process", "singles rate", "/s", "river singles rate", river, ""},
			{"jobs over HTTP, enqueue to a waiting claim's answer at 200/s, p50", "pick-up p50", "ms", "", "", "<= 1 ms"},
		}},
		{name: "counters", measure: counters, profiles: []string{"add"}, rows: []want{
			{"add to one counter, 64 callers", "add rate", "/s", "bare rate", "bare chi handler, one EVALSHA", ">= 1"},
		}},
		{name: "locks", measure: locks, profiles: []string{"hold"}, rows: []want{
			{"lock, acquire and release, 64 names", "hold rate", "/s", "redislock rate", "bare chi handler, bsm/redislock and a fence", ">= 1"},
			{"the same", "hold rate", "/s", "redsync rate", "bare chi handler, redsync and a fence", ">= 1"},
		}},
		{name: "stream-memory", measure: streamMemory, rows: []want{
			{"an idle stream's memory, of 10,000 (heap and stacks in use)", "each", "KiB", "", "", "<= 20 KiB"},
		}},
		{name: "streams", measure: func(w *world) sample { return readers(w, w.few(1000)) }, rows: []want{
			{"1,000 streams on one chat, messages to readers", "ours rate", "/s", "", "", ">= 150000/s"},
		}},
	}}
}

// movingRows are the rows about moving in, on one database. The names of its sides begin with db.
func movingRows(db, title string) (rows []want) {
	for _, what := range []string{"devices", "contacts"} {
		many, one, beside := db+what, db+what+" alone", db+what+" beside"
		rows = append(rows,
			want{what + " a second, 1,000 a call, 8 callers, " + title, many + " rate", "/s",
				one + " rate", "one a call, 8 callers", ">= 20"},
			want{"the same one a call beside these batches, p99", beside + " p99", "ms",
				one + " p99", "without batches", "<= 2"})
	}
	return rows
}

// growthSections are the sections of -growth. Each has one subject.
func growthSections() []section {
	thousands := []int{1000, 10_000, 100_000, 1_000_000}
	return []section{
		growth("backlog", "backlog", backlog, thousands, "events waiting", "accepted /s", "POST p50 ms", "POST p99 ms",
			"delivered /s", "accepting MiB", "sending MiB", "Redis bytes each"),
		growth("fan-out", "fan-out", fanOut, thousands, "followers", "nobody cached: delivered /s",
			"all cached: delivered /s", "first arrival ms", "last arrival s", "fanfare MiB", "fanfare µs each", "Redis µs each"),
		growth("workers", "processes", workers, []int{1, 2, 4}, "processes", "one device, delivered /s", "fanfare µs each",
			"Redis µs each", "batches of 100, delivered /s", "fanfare µs each", "Redis µs each"),
		growth("buyers", "buyers", buyers, []int{1, 10, 100, 1000, 10_000}, "buyers at once", "reservations /s", "p50 ms",
			"p99 ms", "turned away %", "refusals /s", "p50 ms", "p99 ms", "turned away %"),
		growth("orders", "orders of a sale", orders, []int{1, 1000, 100_000, 1_000_000}, "orders", "sold and recorded /s",
			"GET sale p50 ms", "GET orders p50 ms", "reservations /s", "Redis bytes each", "back after a loss s"),
		growth("members", "members of a chat", members, []int{2, 10, 100, 1000}, "members", "messages /s",
			"p50 ms", "p99 ms"),
		growth("readers", "streams", followed, []int{100, 1000, 10_000}, "streams", "messages to readers /s",
			"fanfare µs each"),
	}
}

func growth(name, of string, line func(*world, int) []float64, sizes []int, head ...string) section {
	return section{heading: "Cost growth: " + of, head: head, subjects: []subject{{name: name, sizes: sizes, line: line}}}
}
