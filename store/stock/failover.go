package stock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

const (
	// runsFor is how long what is known of the masters counts. No fail-over is
	// quicker: a master must be silent for longer before another takes its place
	// (down-after-milliseconds, cluster-node-timeout). So a call that begins with
	// such knowledge goes to the master it is about, or fails.
	runsFor = 300 * time.Millisecond
	// runsEvery is how often they are asked while sales go on: until runsIdle after
	// the last call.
	runsEvery = 100 * time.Millisecond
	runsIdle  = 5 * time.Second
	// runsWritten is how old it may be when a command is written that had to wait.
	runsWritten = 500 * time.Millisecond
)

// runs knows which runs of Redis are the masters now. Its value goes with every
// script; a sale remembers the one under which it was made or compared with the
// record, and refuses any other with ErrStaleRun.
type runs struct {
	db *redisdb.DB

	mu     sync.Mutex
	id     string    // "" while unknown
	asked  time.Time // when the answer that id is from was asked for
	asking *asking   // nil while nobody asks
	used   time.Time // when somebody wanted to know
}

// asking is one question to the masters, and all who wait for its answer.
type asking struct {
	done chan struct{}
	err  error // valid once done is closed
}

// unknownRun is no run's name: a script that gets it changes nothing.
const unknownRun = "?"

// MarshalBinary is what a script gets: the name of the runs as it is known when
// the command is written.
func (r *runs) MarshalBinary() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) > runsWritten {
		return []byte(unknownRun), nil
	}
	return []byte(r.id), nil
}

// forget makes the next call ask.
func (r *runs) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = time.Time{}
}

// use is know for a call: others will follow, so the answer is kept fresh.
func (r *runs) use(ctx context.Context) error {
	r.mu.Lock()
	r.used = time.Now()
	r.mu.Unlock()
	return r.know(ctx)
}

// know returns when the masters are known, by an answer that is fresh. Callers
// that come while it is asked for share the answer, also that there is none.
func (r *runs) know(ctx context.Context) error {
	r.mu.Lock()
	if time.Since(r.asked) < runsFor {
		r.mu.Unlock()
		return nil
	}
	a := r.begin(ctx)
	r.mu.Unlock()
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return api.Errorf(api.CodeUnavailable, "Redis is out of reach").Because(ctx.Err())
	}
}

// begin joins the question that is under way, or asks. Callers hold mu.
func (r *runs) begin(ctx context.Context) *asking {
	if r.asking == nil {
		r.asking = &asking{done: make(chan struct{})}
		go r.ask(context.WithoutCancel(ctx), r.asking)
	}
	return r.asking
}

// ask asks every master for its run.
func (r *runs) ask(ctx context.Context, a *asking) {
	asked := time.Now()
	id, err := r.read(ctx)
	if err != nil { // a connection may have died while nobody used it
		asked = time.Now()
		id, err = r.read(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.id, r.asked = id, asked
	}
	a.err, r.asking = err, nil
	close(a.done)
}

// read asks the masters and makes one name of their runs.
func (r *runs) read(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var mu sync.Mutex
	var all []string
	ask := func(ctx context.Context, c *redis.Client) error {
		text, err := c.Info(ctx, "server").Result()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, infoText(text, "run_id"))
		return nil
	}
	var err error
	if cluster, ok := r.db.Client().(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, ask)
	} else if client, ok := r.db.Client().(*redis.Client); ok {
		err = ask(ctx, client)
	} else {
		err = fmt.Errorf("ask a client of type %T for its run", r.db.Client())
	}
	if err != nil {
		return "", r.db.Err(err, redisdb.Read)
	}
	slices.Sort(all)
	sum := sha256.Sum256([]byte(strings.Join(all, " ")))
	return hex.EncodeToString(sum[:8]), nil
}

// infoText reads one value of INFO.
func infoText(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// watchRuns keeps what is known of the masters fresh, so that calls need not ask.
func (s *Store) watchRuns(ctx context.Context) {
	if s.runs == nil {
		<-ctx.Done()
		return
	}
	ticker := time.NewTicker(runsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.runs.refresh(ctx)
		}
	}
}

// refresh asks once more, unless nobody sells. While Redis is away the calls
// themselves say so.
func (r *runs) refresh(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.used) < runsIdle {
		r.begin(ctx)
	}
}

// knowRun returns when it is known which run of Redis is asked.
func (s *Store) knowRun(ctx context.Context) error {
	if s.runs == nil {
		return nil
	}
	return s.runs.use(ctx)
}

// suspect makes the next call ask which Redis it is, after an error that may
// mean a fail-over.
func (s *Store) suspect(err error) {
	if code := api.CodeOf(err); s.runs != nil && (code == api.CodeUnavailable || code == api.CodeUnknownOutcome) {
		s.runs.forget()
	}
}
