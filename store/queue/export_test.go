package queue

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// SetFault puts f between the queue and Redis, before the queue runs. It is asked about
// the steps of stepOf; about a blocking read only before, as nobody sends one twice.
func (q *Queue) SetFault(t testing.TB, f storetest.Fault) {
	q.db = storetest.FaultyBy(t, q.db, stepOf, func(step string, answered bool) error {
		if step == "block" && answered {
			return nil
		}
		return f(step, answered)
	})
	q.common.db = q.db
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
	q.common.dead = deadBounds{most, retention}
}

// Stepper is a process whose every step is taken by hand.
type Stepper struct {
	q *Queue
	w *worker
}

// NewStepper makes a process for shard 0 and begins its session.
func NewStepper(q *Queue) (*Stepper, error) {
	process := &process{
		notice: func(*Claimed) {}, limiter: newLimiter(1<<20, endless), started: time.Now(),
		jobs: context.Background(), writes: context.Background(),
	}
	p := &Stepper{q, newWorker(process, q.shards[0])}
	p.w.sender.next = func() *call { return nil } // nothing happens by itself
	p.w.sender.renew()
	return p, p.Begin()
}

// Begin begins another session.
func (p *Stepper) Begin() error { return p.w.beginSession(context.Background()) }

// EndSession ends the session on this side.
func (p *Stepper) EndSession() { p.w.present().end() }

// Block waits in a blocking read, as an idle process does, and counts what it was given.
func (p *Stepper) Block(ctx context.Context) (int, error) {
	r := &reader{worker: p.w}
	defer r.close()
	arrived, err := r.wait(ctx)
	return len(arrived), err
}

// Life is the present session's name.
func (p *Stepper) Session() string { return p.w.present().name }

// Claim claims up to n jobs.
func (p *Stepper) Claim(n int) ([]*Claimed, error) { return p.claim(&call{room: n}) }

// ClaimAlone claims one job that must run alone.
func (p *Stepper) ClaimAlone() ([]*Claimed, error) {
	return p.claim(&call{room: 1, alone: &aloneClaim{}})
}

// EnqueueAndClaim stores jobs and claims up to n in the same call.
func (p *Stepper) EnqueueAndClaim(n int, jobs ...Job) ([]*Claimed, error) {
	entries, err := p.q.entries(jobs)
	if err != nil {
		return nil, err
	}
	l := newProducer(p.w.shard)
	l.renew()
	c := &call{ctx: context.Background(), script: p.w.scripts.enqueue, session: p.w.present(), room: n,
		requests: []*request{{entries: entries, done: make(chan struct{})}}}
	l.fill(c, len(entries))
	c.number = 1
	answer, err := l.send(c)
	if err != nil {
		return nil, err
	}
	return p.w.begin(c, answer, time.Now()), nil
}

func (p *Stepper) claim(c *call) ([]*Claimed, error) {
	answer, err := p.call(c)
	if err != nil || redisdb.Number(answer[callAlive]) == 0 {
		return nil, err
	}
	return p.w.begin(c, answer, time.Now()), nil
}

// call sends a call and answers as Redis did.
func (p *Stepper) call(c *call) ([]any, error) {
	c.ctx, c.script = context.Background(), p.w.scripts.finish
	if c.session == nil {
		c.session = p.w.present()
	}
	p.w.fill(c)
	c.number = p.w.sender.answered + 1
	answer, err := p.w.sender.send(c)
	if err == nil {
		p.w.sender.answered++
	}
	return answer, err
}

// Finish records one result and gives the answer.
func (p *Stepper) Finish(c *Claimed, r Result) (string, error) {
	answer, err := p.call(&call{results: []ended{{c: c, r: r}}, session: c.session})
	if err != nil {
		return "", err
	}
	p.w.parked.tell(redisdb.Number(answer[callParked]))
	p.w.mu.Lock()
	delete(p.w.live, c)
	p.w.mu.Unlock()
	return redisdb.Text(answer[callAnswer]), nil
}

// Again sends the last call again, as a client does that did not get its answer.
func (p *Stepper) Again(c *Claimed, r Result) (string, error) {
	p.w.sender.answered--
	return p.Finish(c, r)
}

// Renew renews the session by a look and tells whether it was there.
func (p *Stepper) Renew() (alive bool, err error) {
	u, err := (&maintainer{w: p.w}).look(context.Background(), p.w.present(), false)
	return u.alive, err
}

// Maintain maintains the shard until there is nothing more to do.
func (p *Stepper) Maintain() error {
	for {
		if more, err := p.Look(); err != nil || !more {
			return err
		}
	}
}

// Look takes one step of maintenance and tells whether there is more to do.
func (p *Stepper) Look() (more bool, err error) {
	u, err := (&maintainer{w: p.w}).look(context.Background(), p.w.present(), true)
	return u.more, err
}

// AgeSeries makes the sender of a shard's results believe that it was silent for long. It is
// to be called by a fault of the sender.
func AgeSeries(q *Queue, shard int) {
	q.shards[shard].producer.worker.sender.last = time.Now().Add(-memoTTL + time.Minute)
}

// Waiting is how many requests wait for the next call of a shard.
func Waiting(q *Queue, shard int) int {
	l := q.shards[shard].producer
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// PlacesBesideOneAlone gives the places that can be taken while the only one is taken and
// a job began to run alone all the same.
func PlacesBesideOneAlone(ctx context.Context) int {
	g := newLimiter(1, endless)
	g.take(1)
	g.alone(ctx, 0)
	g.together()
	return g.take(5)
}

// RecordsWhile makes calls while f runs and tells how many results were in them.
func (p *Stepper) RecordsWhile(f func()) (n int) {
	done := make(chan bool)
	go func() { defer close(done); f() }()
	for {
		select {
		case <-done:
			return n
		default:
		}
		if c := p.w.nextCall(); c != nil {
			n += len(c.results)
		}
	}
}

// ParkedBound is what parked jobs may take.
func ParkedBound(q *Queue) int64 { return q.parkedBytes() }
