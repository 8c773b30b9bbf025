package stock

import (
	"context"
	"sync"
	"time"

	"fanfare/store/redisdb"
)

// survey is two passes over all partitions of a sale, one after the other. A
// crowd that finds its homes empty shares them: who asks while one is under way
// gets the next, which begins after he asked.
type survey struct {
	before, now []*look
	err         error // valid, as the rest, once done is closed
	done        chan struct{}
}

// surveyor makes the surveys of one sale, one at a time.
type surveyor struct {
	mu      sync.Mutex
	waiting *survey
	busy    bool
}

// surveyTimeout bounds one survey.
const surveyTimeout = 5 * time.Second

// survey waits for one that begins after the call.
func (l *Live) survey(ctx context.Context, places []*place) (*survey, error) {
	v, _ := l.surveyors.LoadOrStore(places[0].sale, &surveyor{})
	s := v.(*surveyor)
	s.mu.Lock()
	if s.waiting == nil {
		s.waiting = &survey{done: make(chan struct{})}
	}
	mine := s.waiting
	if !s.busy {
		s.busy = true
		go s.run(context.WithoutCancel(ctx), l, places)
	}
	s.mu.Unlock()
	select {
	case <-mine.done:
		return mine, mine.err
	case <-ctx.Done():
		return nil, l.db.Err(context.Cause(ctx), redisdb.Read)
	}
}

// run makes surveys until nobody waits.
func (s *surveyor) run(ctx context.Context, l *Live, places []*place) {
	for {
		s.mu.Lock()
		now := s.waiting
		s.waiting = nil
		s.busy = now != nil
		s.mu.Unlock()
		if now == nil {
			return
		}
		now.err = now.make(ctx, l, places)
		close(now.done)
	}
}

func (s *survey) make(ctx context.Context, l *Live, places []*place) (err error) {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	if s.before, err = l.pass(ctx, places); err != nil {
		return err
	}
	if s.now, err = l.looks(ctx, places...); err != nil {
		return err
	}
	return l.mayGive(places, s.now)
}
