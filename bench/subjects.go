package main

import (
	"cmp"
	"slices"
	"strings"
)

// subject is a group of measurements that can be run by name. It has sides that are measured in
// turns, or something that is measured once, or a table with a line for each size.
type subject struct {
	name    string
	section string // heading in the file of results
	rounds  int    // at most; 0: as many as the options say
	sides   func(*world) []*side
	once    func(*world) medians
	rows    []want
	sizes   []int
	head    []string // of the table
	line    func(w *world, size int) []float64
	// profiles are the sides that -profile accepts, by the names for -profile.
	profiles map[string]string
}

// measure makes the measurements of the subject. For each size everything is set up anew, and a quick
// run measures only the first sizes.
func (s *subject) measure(w *world) found {
	f := found{subject: *s}
	for i, size := range s.sizes {
		if w.quick && i == 2 {
			break
		}
		whole, _, _ := strings.Cut(figure(float64(size)), ".")
		line := []string{whole}
		for _, v := range s.line(w, size) {
			line = append(line, figure(v))
		}
		f.lines = append(f.lines, line)
		w.reset()
	}
	if s.line != nil {
		return f
	}
	defer func(rounds int) { w.rounds = rounds }(w.rounds)
	w.rounds = min(w.rounds, cmp.Or(s.rounds, w.rounds))
	var m medians
	if s.once != nil {
		m = s.once(w)
	} else {
		m = w.turns(s.sides(w)...)
	}
	for _, r := range s.rows {
		f.measured = append(f.measured, row{r, m[r.ours], m[r.base]})
		f.measured[len(f.measured)-1].check()
	}
	return f
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
	cached   = "all cached"
	// followed100k is what the other fan-outs from SQL are compared with.
	followed100k = "contacts_of, 100,000 devices"
)

// subjects are the subjects with rows, in the order of the sections.
func subjects() []subject { return slices.Concat(pushSubjects(), farSubjects(), storeSubjects()) }

func pushSubjects() []subject {
	return []subject{
		{name: "accept", section: "Push", sides: accept, profiles: map[string]string{"accept": "ours"}, rows: []want{
			{"POST /v1/events accepted, 64 callers, API role alone", "ours rate", "/s", "bare rate", xadd, atLeast(1)},
			{"POST /v1/events accepted, 64 callers, API role alone, p99", "ours p99", "ms", "bare p99", xadd, atMost(1)},
		}},
		{name: "push", section: "Push", sides: push, profiles: map[string]string{
			"one": "one", "batch": "batch", "ten": "ten", "wide": "wide", "fans": "fans",
		}, rows: []want{
			{"delivered, one event per POST, one device", "one rate", "/s", "stock rate", stock, atLeast(.5)},
			{"delivered, 100 events per batch POST", "batch rate", "/s", "stock rate", stock, atLeast(1)},
			{"delivered, one event to 10 devices", "ten rate", "/s", "stock rate", stock, atLeast(1)},
			{"delivered, one event to 2,000 devices", "wide rate", "/s", "stock rate", stock, atLeast(1.2)},
			{"delivered, one event to 100,000 devices", "fans rate", "/s", "stock rate", stock, atLeast(1.2)},
			{"push stage alone (delivery/apns, no queue)", "stage rate", "/s", "stock rate", stock, atLeast(1.8)},
			{"Redis, processor time per one-device event at saturation", "one redis", "µs", "", "", valueAtMost(25)},
			{"fanfare, processor time per one-device event at saturation", "one fanfare", "µs", "", "", valueAtMost(90)},
		}},
		{name: "audiences", section: "Push", sides: audiences, rows: []want{
			{"delivered, one event to a topic of 100,000 devices", "topic rate", "/s", "contacts rate", followed100k, atLeast(.95)},
			{"delivered, one event to all users, 100,000 devices", "all rate", "/s", "contacts rate", followed100k, atLeast(.95)},
		}},
		{name: "platforms", section: "Push", sides: platforms, rows: []want{
			{"delivered to FCM, 100 events per batch POST", "fcm 0 rate", "/s", "apns 0 rate", "the same to APNs, same stand-in", atLeast(.9)},
			{"delivered to browsers, 100 events per batch POST", "webpush 0 rate", "/s", "apns 0 rate", "the same to APNs, same stand-in", atLeast(.4)},
			{"the same to APNs, answers after 100 ms", "apns 100 rate", "/s", "apns 0 rate", atOnce, goal{}},
			{"the same to FCM, answers after 100 ms, while its requests grow by a tenth a second", "fcm 100 rate", "/s", "fcm 0 rate", atOnce, goal{}},
			{"the same to browsers, answers after 100 ms", "webpush 100 rate", "/s", "webpush 0 rate", atOnce, goal{}},
		}},
		{name: "latency", section: "Push", sides: latency, rows: []want{
			{"POST to arrival at 200/s, p50", "ours p50", "ms", "", "", valueAtMost(.8)},
			{"POST to arrival at 200/s, p99", "ours p99", "ms", "", "", valueAtMost(3)},
		}},
		{name: "queue", section: "Push", sides: queues, rows: []want{
			{"queue, no-op jobs, enqueue (100 a call) and process", "batches rate", "/s", "asynq singles rate", peer, atLeast(8)},
			{"the same, one job a call, 64 callers", "singles rate", "/s", "asynq singles rate", peer, goal{}},
			{"queue, enqueue to handler at 200/s, p50", "pick-up p50", "ms", "asynq pick-up p50", peer, valueAtMost(.3)},
		}},
		{name: "memory", section: "Push", once: memory, rows: []want{
			{"memory of fanfare with 1,000,000 notifications waiting for APNs, peak", "peak", "MiB", "", "", valueAtMost(94)},
			{"Redis, memory per waiting one-device event, each for a device of its own", "first", "bytes", "", "", valueAtMost(400)},
			{"the same, for devices for which others wait already", "rest", "bytes", "", "", goal{}},
			{"Redis, memory that an ended one-device event leaves for its retention", "kept", "bytes", "", "", valueAtMost(400)},
		}},
	}
}

func farSubjects() []subject {
	return []subject{
		{name: "far", section: "Far", rounds: 3, sides: far, rows: []want{
			{"one device an event, 100 a batch, answers after 0 ms", "batch 0 rate", "/s", "stock-far 0 rate", stockFar, goal{}},
			{"one device an event, 100 a batch, answers after 100 ms", "batch 100 rate", "/s", "stock-far 100 rate", stockFar, atLeast(1)},
			{"one device an event, 100 a batch, answers after 300 ms", "batch 300 rate", "/s", "stock-far 300 rate", stockFar, atLeast(1)},
			{"the same, answers after 100 ms", "batch 100 rate", "/s", "batch 0 rate", atOnce, atLeast(.8)},
			{"the same, answers after 300 ms", "batch 300 rate", "/s", "batch 0 rate", atOnce, atLeast(.6)},
			{"one event to 2,000 devices, answers after 100 ms", "wide 100 rate", "/s", "wide 0 rate", atOnce, atLeast(.8)},
			{"one event to 2,000 devices, answers after 300 ms", "wide 300 rate", "/s", "wide 0 rate", atOnce, atLeast(.6)},
			{"Redis, processor time per one-device event at saturation, 100 ms", "one 100 redis", "µs", "", "", valueAtMost(35)},
			{"entries of streams per one-device event, 100 a batch, 100 ms", "batch 100 entries", "", "", "", valueAtMost(1.05)},
			{"entries of streams per one-device event, one per POST, 100 ms", "one 100 entries", "", "", "", valueAtMost(1.05)},
		}},
		{name: "far-processes", section: "Far", rounds: 3, once: farProcesses, rows: []want{
			{"one event to 100,000 devices, 100 ms, room for 500 requests a process, two processes", "2", "/s", "1", "one process", atLeast(1.7)},
			{"one event to 100,000 devices, 100 ms, room for 500 requests a process, four", "4", "/s", "1", "one process", atLeast(3)},
		}},
		{name: "far-latency", section: "Far", rounds: 3, sides: farLatency, rows: []want{
			{"one-user events at 50/s from POST to arrival, p99, while 100,000 devices of their app are sent to at 100 ms",
				"lone same", "ms", "", "", valueAtMost(100)},
			{"one-user events at 50/s from POST to arrival, p99, while another app hangs, from its third second on",
				"lone other", "ms", "", "", valueAtMost(20)},
		}},
		{name: "far-memory", section: "Far", rounds: 3, sides: farMemory, rows: []want{
			{"memory of fanfare with 1,000,000 notifications waiting, 300 ms, peak", "far peak", "MiB", "", "", valueAtMost(128)},
		}},
		{name: "cold", section: "Far", rounds: 3, once: cold, rows: []want{
			{"one event to 100,000 devices, nobody cached, SQLite", "sqlite cold rate", "/s", "sqlite warm rate", cached, atLeast(.6)},
			{"one event to 100,000 devices, nobody cached, MariaDB", "mysql cold rate", "/s", "mysql warm rate", cached, atLeast(.6)},
			{"Redis, memory per recipient of that event, peak", "sqlite cold peak", "bytes", "", "", valueAtMost(200)},
			{"Redis, memory per recipient of that event, right after its end", "sqlite cold left", "bytes", "", "", valueAtMost(60)},
			{"Redis, processor time per recipient, nobody cached", "sqlite cold redis", "µs", "sqlite warm redis", cached, goal{}},
		}},
	}
}

func storeSubjects() []subject {
	return []subject{
		{name: "sale", section: "Stores", sides: sales, profiles: map[string]string{"reserve": "reserve", "refuse": "refuse"}, rows: []want{
			{"reservation, 64 buyers, one item", "reserve rate", "/s", "script rate", "bare chi handler, one ungathered EVALSHA", atLeast(1)},
			{"reservation at half the highest rate, p99", "half p99", "ms", "", "", valueAtMost(5)},
			{"refusal after sold out", "refuse rate", "/s", "json rate", "bare chi handler that decodes and answers JSON, no Redis", atLeast(.7)},
		}},
		{name: "processes", section: "Stores", sides: saleProcesses, rows: []want{
			{"reservation on 3 API processes, 1 partition", "whole rate", "/s", "once rate", oneOf1, atLeast(1)},
			{"reservation on 3 API processes, 8 partitions", "split rate", "/s", "once rate", oneOf1, atLeast(1)},
		}},
		{name: "chat", section: "Stores", sides: chats, profiles: map[string]string{"chat": "ours"}, rows: []want{
			{"chat send, 64 chats, 64 callers", "ours rate", "/s", "bare rate", "bare chi handler, one EVALSHA", atLeast(.9)},
		}},
		{name: "chat-store", section: "Stores", sides: chatStore, rows: []want{
			{"chat send, 16 senders, one chat, store alone", "ours rate", "/s", "lock rate", "SET NX lock, INCR, ZADD, unlock", atLeast(9)},
		}},
		{name: "contacts", section: "Stores", sides: contacts, profiles: map[string]string{"recent": "sqlite"}, rows: []want{
			{"recent-contacts, 64 callers, SQLite", "sqlite rate", "/s", "bare rate", zrange, atLeast(.5)},
			{"recent-contacts, 64 callers, MariaDB", "mariadb rate", "/s", "bare rate", zrange, atLeast(.4)},
			{"recent-contacts with 100,000 contacts, one caller, p50", "big p50", "ms", "small p50", "with 10 contacts", atMost(1.2)},
			{"upload, indexes of its followers, MariaDB", "upload rate", "/s", "", "", valueAtLeast(100_000)},
		}},
		{name: "moving-in", section: "Stores", sides: movingIn, profiles: map[string]string{"devices": "sqlite devices many", "contacts": "sqlite contacts many"},
			rows: slices.Concat(movingRows("sqlite", "SQLite"), movingRows("mariadb", "MariaDB"))},
		{name: "reads", section: "Stores", sides: reads, profiles: map[string]string{"event": "event"}, rows: []want{
			{"GET /v1/events/{id}", "event rate", "/s", "event hash rate", hgetall, atLeast(.8)},
			{"GET /v1/sales/{id}", "sale rate", "/s", "sale hash rate", hgetall, atLeast(.8)},
		}},
		{name: "stream-memory", section: "Stores", once: streamMemory, rows: []want{
			{"an idle stream's memory, of 10,000 (heap and stacks in use)", "each", "KiB", "", "", valueAtMost(20)},
		}},
		{name: "streams", section: "Stores", sides: func(w *world) []*side { return readers(w, w.few(1000)) }, rows: []want{
			{"1,000 streams on one chat, messages to readers", "ours rate", "/s", "", "", valueAtLeast(150_000)},
		}},
	}
}

// movingRows are the rows about moving in, on one database.
func movingRows(db, title string) (rows []want) {
	for _, what := range []string{"devices", "contacts"} {
		name := db + " " + what + " "
		rows = append(rows,
			want{what + " a second, 1,000 a call, 8 callers, " + title, name + "many rate", "/s", name + "one rate", "one a call, 8 callers", atLeast(20)},
			want{"the same one a call beside these batches, p99", name + "beside p99", "ms", name + "one p99", "without batches", atMost(2)})
	}
	return rows
}

// growthSubjects are the subjects of -growth, each with its own section.
func growthSubjects() []subject {
	return []subject{
		{name: "backlog", section: "Cost growth: backlog", sizes: []int{1000, 10_000, 100_000, 1_000_000}, head: []string{
			"notifications waiting", "accepted /s", "POST p50 ms", "POST p99 ms", "delivered /s", "accepting MiB", "sending MiB",
			"Redis bytes each",
		}, line: backlog},
		{name: "fan-out", section: "Cost growth: fan-out", sizes: []int{1000, 10_000, 100_000, 1_000_000}, head: []string{
			"followers", "nobody cached: delivered /s", "all cached: delivered /s", "first arrival ms", "last arrival s", "fanfare MiB",
			"fanfare µs each", "Redis µs each",
		}, line: fanOut},
		{name: "workers", section: "Cost growth: processes", sizes: []int{1, 2, 4}, head: []string{
			"processes", "one device, delivered /s", "fanfare µs each", "Redis µs each", "batches of 100, delivered /s",
			"fanfare µs each", "Redis µs each",
		}, line: workers},
		{name: "buyers", section: "Cost growth: buyers", sizes: []int{1, 10, 100, 1000, 10_000}, head: []string{
			"buyers at once", "reservations /s", "p50 ms", "p99 ms", "turned away %", "refusals /s", "p50 ms", "p99 ms", "turned away %",
		}, line: buyers},
		{name: "orders", section: "Cost growth: orders of a sale", sizes: []int{1, 1000, 100_000, 1_000_000}, head: []string{
			"orders", "sold and recorded /s", "GET sale p50 ms", "GET orders p50 ms", "reservations /s", "Redis bytes each",
			"back after a loss s",
		}, line: orders},
		{name: "members", section: "Cost growth: members of a chat", sizes: []int{2, 10, 100, 1000}, head: []string{
			"members", "messages /s", "p50 ms", "p99 ms",
		}, line: members},
		{name: "readers", section: "Cost growth: streams", sizes: []int{100, 1000, 10_000}, head: []string{
			"streams", "messages to readers /s", "fanfare µs each",
		}, line: followed},
	}
}
