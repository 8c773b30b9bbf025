package queue

import (
	"context"
	"time"

	"fanfare/store/redisdb"
)

// SetFault puts f between the queue and Redis.
func (q *Queue) SetFault(f func(step string, answered bool) error) { q.fault = f }

// SetDeadBounds makes a queue keep fewer dead letters.
func SetDeadBounds(q *Queue, most int, retention time.Duration) { q.dead = deadBounds{most, retention} }

// Stepper is a process whose every step is taken by hand.
type Stepper struct {
	w *worker
	s *shardWorker
}

// NewStepper makes a process for shard 0.
func NewStepper(q *Queue) *Stepper {
	w := &worker{q: q, gate: newGate(1 << 20), started: time.Now(), jobs: context.Background(), writes: context.Background()}
	return &Stepper{w, newShardWorker(w, 0)}
}

// Claim claims up to n jobs.
func (p *Stepper) Claim(n int) ([]*Claimed, error) {
	return p.s.claim(context.Background(), &p.s.calls, n, claimNext, nil)
}

// ClaimAlone claims one job that must run alone.
func (p *Stepper) ClaimAlone() ([]*Claimed, error) {
	return p.s.claim(context.Background(), &p.s.lone, 1, claimAlone, nil)
}

// Finish records one result and gives the answer.
func (p *Stepper) Finish(c *Claimed, r Result) (string, error) {
	return p.s.results.finish(context.Background(), []ended{{c, r}})
}

// DropConsumers removes consumers without work that were idle for so long.
func (p *Stepper) DropConsumers(idle time.Duration) (int64, error) {
	p.w.q.idle = idle
	return p.s.dropConsumers(context.Background())
}

// Renew renews one lease.
func (p *Stepper) Renew(c *Claimed) (bool, error) {
	value, err := p.w.q.db.Eval(context.Background(), redisdb.Write, p.w.q.scripts.renew, p.w.q.keys(0), ms(p.w.q.o.Lease), c.ID, c.Fence)
	if err != nil {
		return false, err
	}
	return redisdb.Number(value.([]any)[1]) == 1, nil
}

// Maintain maintains the shard until there is nothing more to do.
func (p *Stepper) Maintain() error {
	from := [3]string{fromStart, fromStart, fromStart}
	for {
		u, err := p.s.upkeep(context.Background(), from)
		if err != nil || !u.more {
			return err
		}
		from = u.from
	}
}
