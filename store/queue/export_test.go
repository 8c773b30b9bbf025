package queue

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/storetest"
)

// SetFault puts f between the queue and Redis, before the queue runs. It is asked about
// the steps of stepOf; about a blocking read only before, as nobody sends one twice.
func (q *Queue) SetFault(t testing.TB, f storetest.Fault) {
	*q = *New(storetest.FaultyBy(t, q.db, stepOf, func(step string, answered bool) error {
		if step == "block" && answered {
			return nil
		}
		return f(step, answered)
	}), q.o)
}

// steps are the names of scripts and commands for faults.
var steps = map[string]string{
	"call_enqueue": "enqueue", "session_begin": "begin", "session_compare": "compare", "session_end": "leave",
	"shard_look": "maintain", "shard_check": "check", "xreadgroup": "block",
}

// stepOf names what a process does with a command, "" for what faults are not asked about.
// The same script records results, claims, or asks whether Redis is back.
func stepOf(cmd redis.Cmder) string {
	name := storetest.NameOf(cmd)
	if name != "call_finish" {
		return steps[name]
	}
	argv := cmd.Args()[3+cmd.Args()[2].(int):]
	number := func(i int) int { n, _ := strconv.Atoi(fmt.Sprint(argv[i-1])); return n }
	adopted := number(10)
	args := 11 + adopted
	switch {
	case number(args+5)+number(args+6)+number(args+7) > 0:
		return "finish"
	case adopted+number(7) > 0:
		return "claim"
	}
	return "renew"
}

// SetDeadBounds makes a queue keep fewer dead letters.
func SetDeadBounds(q *Queue, most int, retention time.Duration) {
	q.common.MaxDead, q.common.DeadRetention = most, retention
}

// ParkedBound is what parked jobs may take.
func ParkedBound(q *Queue) int64 { return q.parkedBytes() }

// MarksKey names the marks of a job.
func MarksKey(q *Queue, n int, id string) string { return q.shards[n].MarksKey(id) }
