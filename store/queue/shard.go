package queue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/store/redisdb"
)

// common is what the shards of a queue share in this process.
type common struct {
	db       *redisdb.DB
	o        Options
	embedded bool // Redis is in this process
	scripts  scripts
	dead     deadBounds
	made     time.Time
	known    atomic.Bool // the queue's shards were found in Redis
	outage   redisdb.Outage
	wakeup   atomic.Int64    // mean wake-up latency in µs
	names    chan ParkedName // under which jobs are parked
}

// shard is one shard of a queue, as this process sees it.
type shard struct {
	*common
	n        int
	prefix   string       // of its keys
	depth    atomic.Int64 // last known entries waiting
	producer *producer
	alarm    alarm
	failedAt atomic.Int64 // when it could not be reached last, counted from made; 0: never
	checking atomic.Bool  // a check after an enqueueing is planned
	parked   parked
}

func newShard(c *common, n int) *shard {
	s := &shard{common: c, n: n, prefix: Prefix(c.o.Name, n, c.o.Shards)}
	s.alarm.came = make(chan struct{}, 1)
	s.producer = newProducer(s)
	return s
}

// checkSoon has entries put back that a blocking read was given and nobody claimed. It is
// called after this process put jobs into a stream without claiming them: a read whose
// connection died, or whose process was stopped, would keep such an entry. An idle process
// checks nothing, a busy one at most once per shard at a time.
func (s *shard) checkSoon(ctx context.Context) {
	if s.checking.Swap(true) {
		return
	}
	go func() {
		defer s.checking.Store(false)
		for range checks {
			sleep(ctx, checkAfter)
			cmd := s.scripts.check.Cmd(ctx, s.keys(), ms(unclaimedFor), ms(s.o.Retention), ms(s.o.GroupRetention), ms(s.o.ReportRetention))
			if err := s.db.Share(ctx, redisdb.Write, cmd); err != nil {
				return
			}
			if held, err := cmd.Int64(); err != nil || held == 0 {
				return
			}
		}
	}()
}

// alarm is the time at which a shard's maintainer has to look, until it has read it.
type alarm struct {
	mu   sync.Mutex
	at   time.Time     // when something is due first; zero: nothing is
	came chan struct{} // holds one value when at was set
}

// wakeMaintainer tells the shard's maintainer, if this process has one, that something is
// due after d. However often it is called, it takes no memory.
func (s *shard) wakeMaintainer(d time.Duration) {
	n, at := &s.alarm, time.Now().Add(d)
	n.mu.Lock()
	if n.at.IsZero() || at.Before(n.at) {
		n.at = at
	}
	n.mu.Unlock()
	select {
	case n.came <- struct{}{}:
	default:
	}
}

// take reads and clears the time; zero: nothing is due.
func (n *alarm) take() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := n.at
	n.at = time.Time{}
	return at
}
