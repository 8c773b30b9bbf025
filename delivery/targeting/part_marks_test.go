package targeting_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestA15_EndsOfAPartAreRecordedAsTheyCome: a process dies while one device of a part of a large
// audience hangs. The process that takes the part over sends only to that device.
func TestA15_EndsOfAPartAreRecordedAsTheyCome(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	p := setup(t, options{db: storetest.Open(t, server.URL()), idle: true, apns: apnstest.Options{TrackIDs: true},
		queue: func(o *queue.Options) { o.Lease = 6 * time.Second }})
	const many = 150 // parts of 100 and of 50
	p.mustManyDevices(many)
	users := fans(many)
	p.apns.Script(token(1_000_003), apnstest.Failing(apnstest.Hang), apnstest.OK())
	own, err := redisdb.Open(t.Context(), redisdb.Options{URL: server.URL()})
	storetest.Must(t, err)
	p.processOn(own).start()
	id := p.mustPost(hello(users...))
	storetest.Eventually(t, soon, "all ends but one to be on record", func() bool {
		marks := p.mustKeys("ff:{q:events:*}:marks:*")
		return len(marks) == 1 && p.db.Client().HLen(t.Context(), marks[0]).Val() == 99 && p.mustReport(id).Delivered == 50
	})
	storetest.Must(t, own.Close()) // from now on this process does not reach Redis
	p.process().start()
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{many, many, many, 0, 0})
	// How the first process' notifications ended is on record in their number alone (N10).
	if e := p.mustUserEvent(id, users[50]); e.OutcomesKept || len(e.Notifications) > 0 {
		t.Errorf("%+v", e)
	}
	if distinct, repeats := p.apns.IDs(); distinct != many || p.apns.Total() != many+1 {
		t.Errorf("%d devices were reached, %d repeats, %d requests", distinct, repeats, p.apns.Total())
	}
}

// TestA15_WhatAPartHasStoredIsNotSentAgain: a device of a part is to be tried again, and Redis stores that as a job,
// but its answer is lost. The part is claimed again, and the job that nobody knows of is the only request.
func TestA15_WhatAPartHasStoredIsNotSentAgain(t *testing.T) {
	t.Parallel()
	p := setup(t, options{db: storetest.Open(t, storetest.Redis(t).URL()), idle: true, apns: apnstest.Options{TrackIDs: true}})
	const many = 150 // parts of 100 and of 50
	p.mustManyDevices(many)
	p.apns.Script(token(1_000_003), apnstest.Answer{Status: 503, Reason: "ServiceUnavailable"}, apnstest.OK())
	var lost atomic.Bool
	storing := func(cmd redis.Cmder) string { // a call that stores notifications
		if name := storetest.NameOf(cmd); name != "call_enqueue" || !strings.Contains(fmt.Sprint(cmd.Args()...), "{q:notifications") {
			return ""
		}
		return "store"
	}
	p.processOn(storetest.FaultyBy(t, p.db, storing, func(_ string, answered bool) error {
		if answered && lost.CompareAndSwap(false, true) {
			return storetest.ErrLost
		}
		return nil
	})).start()
	id := p.mustPost(hello(fans(many)...))
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{many, many, many, 0, 0})
	p.first.mustDrain()
	if distinct, repeats := p.apns.IDs(); distinct != many || repeats > 0 {
		t.Errorf("%d devices were reached, %d repeats", distinct, repeats)
	}
}
