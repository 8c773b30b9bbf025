package shard

import (
	"context"
	"math"
	"time"

	"fanfare/store/redisdb"
)

// endless is the room of a handler that has always use for more.
func endless() int { return math.MaxInt }

// Stepper is a process whose every step is taken by hand.
type Stepper struct{ w *Worker }

// NewStepper makes a process for shard 0 and begins its session.
func NewStepper(c *Common) (*Stepper, error) {
	callbacks := Callbacks{Room: endless}
	p := &Stepper{NewWorker(NewProcess(context.Background(), context.Background(), 1<<20, callbacks), c.Shard(0))}
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
	defer p.w.reader.close()
	arrived, err := p.w.reader.wait(ctx)
	return len(arrived), err
}

// Session is the present session's name.
func (p *Stepper) Session() string { return p.w.present().name }

// Claim claims up to n jobs.
func (p *Stepper) Claim(n int) ([]*Claimed, error) { return p.claim(&call{room: n}) }

// ClaimIsolated claims jobs of a stream that must not run beside others, as many as run together.
func (p *Stepper) ClaimIsolated(letter string) ([]*Claimed, error) {
	most := p.w.isolation(letter).most
	return p.claim(&call{room: most, isolated: &isolatedClaim{letter: letter, most: most}})
}

// EnqueueAndClaim stores jobs and claims up to n in the same call.
func (p *Stepper) EnqueueAndClaim(n int, jobs ...Job) ([]*Claimed, error) {
	l := newProducer(p.w.Shard)
	l.renew()
	c := &call{ctx: context.Background(), script: p.w.Scripts.enqueue, session: p.w.present(), room: n}
	c.requests = append(c.requests, NewRequest(c.ctx, Once{}, Entries(jobs...)))
	l.fill(c, len(jobs))
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
	c.ctx, c.script = context.Background(), p.w.Scripts.finish
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

// Entries are those of fresh jobs with ids.
func Entries(jobs ...Job) (all []*Entry) {
	for _, j := range jobs {
		e := &Entry{Job: j}
		e.Init(true)
		all = append(all, e)
	}
	return all
}

// Finish records one result and gives the answer.
func (p *Stepper) Finish(c *Claimed, r Result) (string, error) {
	answer, err := p.call(&call{results: []ended{{c: c, r: r}}, session: c.session})
	if err != nil {
		return "", err
	}
	p.w.NoteParked(redisdb.Number(answer[callParked]))
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

// LateClaim lets a copy of the last call but one arrive, for up to n jobs, and reports whether it
// did anything.
func (p *Stepper) LateClaim(n int) (ran bool, err error) {
	last := p.w.sender.answered
	p.w.sender.answered = last - 2
	defer func() { p.w.sender.answered = last }()
	answer, err := p.call(&call{room: n})
	return err == nil && redisdb.Number(answer[callStatus]) == callDone, err
}

// MarksToSend is how many jobs have marks in the next call.
func (p *Stepper) MarksToSend() int {
	if c := p.w.nextCall(); c != nil {
		return len(c.marks)
	}
	return 0
}

// Compare compares the jobs of the session with Redis.
func (p *Stepper) Compare() error { return p.w.present().compareOnce() }

// LeaseTrusted is for how long the process trusts a lease that a call renewed.
func (p *Stepper) LeaseTrusted() time.Duration {
	l := p.w.present()
	l.extend(time.Now(), false)
	return time.Duration(l.deadline() - l.renewed.Load())
}

// TrustedAfter is for how long after a call was sent the process trusts the lease that the call renewed.
func (p *Stepper) TrustedAfter(sent time.Time) time.Duration {
	l := p.w.present()
	l.extend(sent, false)
	return p.w.process.started.Add(time.Duration(l.deadline())).Sub(sent)
}

// Renew renews the session by a look and reports whether it was there.
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

// Look takes one step of maintenance and reports whether there is more to do.
func (p *Stepper) Look() (more bool, err error) {
	u, err := (&maintainer{w: p.w}).look(context.Background(), p.w.present(), true)
	return u.more, err
}

// PlacesBesideOneAlone gives the places that can be taken while the only one is taken and
// a job began to run alone all the same.
func PlacesBesideOneAlone(ctx context.Context) int {
	g := newLimiter(1, endless)
	g.take(1)
	g.isolate(ctx, isolation{most: 1})
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

// AgeSeries makes the sender of a worker's results believe that it was silent for long. It
// is to be called by a fault of the sender.
func AgeSeries(w *Worker) { w.sender.last = time.Now().Add(-memoTTL + time.Minute) }

// Waiting is how many requests wait for the next call of a shard.
func Waiting(s *Shard) int {
	s.Producer.mu.Lock()
	defer s.Producer.mu.Unlock()
	return len(s.Producer.waiting)
}
