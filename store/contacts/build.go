package contacts

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// ranking has the best contacts of a scan, in descending order, at most size.
type ranking struct {
	size int
	list []record.Activity
}

func entryOf(a record.Activity) entry { return entry{a.Contact, *a.LastUpload} }

// add ranks a contact. A contact without a visible upload has no rank.
func (r *ranking) add(a record.Activity) {
	if a.LastUpload == nil {
		return
	}
	e := entryOf(a)
	if n := len(r.list); n < r.size && (n == 0 || e.less(entryOf(r.list[n-1]))) {
		r.list = append(r.list, a) // most contacts come in descending order
		return
	}
	i, _ := slices.BinarySearchFunc(r.list, e, func(other record.Activity, e entry) int {
		switch o := entryOf(other); {
		case e.less(o):
			return -1
		case o.less(e):
			return 1
		}
		return 0
	})
	if i >= r.size {
		return
	}
	r.list = slices.Insert(r.list, i, a)
	r.list = r.list[:min(len(r.list), r.size)]
}

// first returns the best n, or fewer.
func (r *ranking) first(n int) []record.Activity { return r.list[:min(n, len(r.list))] }

// scan ranks the contacts of a user from SQL, page by page, so that memory does not grow with the
// number of contacts. After the given number of pages it gives up and returns false; 0 means no
// limit. each, if set, is called between pages.
func (s *Store) scan(ctx context.Context, user string, size, pages int, each func() error) (*ranking, bool, error) {
	r := &ranking{size: size}
	after := ""
	for page := 1; ; page++ {
		list, err := s.rec.ActivityPage(ctx, user, after, s.o.Page)
		if err != nil {
			return nil, false, fmt.Errorf("scan contacts: %w", err)
		}
		for _, a := range list {
			r.add(a)
			after = a.Contact
		}
		if len(list) < s.o.Page {
			return r, true, nil
		}
		if page == pages {
			return r, false, nil
		}
		if each != nil {
			if err := each(); err != nil {
				return nil, false, err
			}
		}
	}
}

// The answers of build_begin.lua and build_fill.lua.
const (
	buildLost  = 0 // another process builds
	buildOK    = 1
	buildMoved = 2 // a relationship changed since SQL was read
)

// build is the right to build the index of one user.
type build struct {
	x         *index
	user      string
	token     string
	over      string // a holder whose token begins with this loses the right; "": none does
	lease     time.Duration
	held      bool // begin has taken the right, and from then on only extends it
	relations string
}

// readerToken is the beginning of the tokens of reads. A job takes the right from a read, because
// only the job builds to the end: otherwise the job of a user with many contacts would wait as long
// as there are reads.
const readerToken = "read:"

// begin takes the right to build, or extends it. It returns false if another process has the right,
// or if the right was held and has ended. reset empties the index first.
func (b *build) begin(ctx context.Context, reset bool) (bool, error) {
	empty, keep := 0, 0
	if reset {
		empty = 1
	}
	if b.held {
		keep = 1
	}
	reply, err := b.x.reply(ctx, redisdb.Write, b.x.beginScript, buildKeys(b.user), b.token, b.lease.Milliseconds(), indexLifetime.Milliseconds(), empty, b.over, keep)
	if err != nil {
		return false, fmt.Errorf("begin build: %w", err)
	}
	b.relations = redisdb.TextAt(reply, 1)
	b.held = redisdb.NumberAt(reply, 0) == buildOK
	return b.held, nil
}

// fill ends the build with the contacts that a scan ranked: at least one more than the index holds,
// if there are that many. After buildMoved, the caller must scan again.
func (b *build) fill(ctx context.Context, r *ranking) (int64, error) {
	args := []any{b.token, b.relations, b.x.max, indexLifetime.Milliseconds(), recentMargin.Milliseconds(), "", ""}
	if len(r.list) > b.x.max {
		out := entryOf(r.list[b.x.max])
		args[5], args[6] = out.score(), out.contact
	}
	for _, a := range r.first(b.x.max) {
		args = append(args, a.Contact, entryOf(a).score())
	}
	reply, err := b.x.reply(ctx, redisdb.Write, b.x.fillScript, buildKeys(b.user), args...)
	if err != nil {
		return 0, fmt.Errorf("fill index: %w", err)
	}
	if redisdb.TextAt(reply, 1) != "" {
		b.relations = redisdb.TextAt(reply, 1)
	}
	return redisdb.NumberAt(reply, 0), nil
}

// release gives the right back. If Redis is away, the right expires by itself.
func (b *build) release(ctx context.Context) {
	_ = b.x.db.Share(context.WithoutCancel(ctx), redisdb.Write, redisdb.DeleteIf(ctx, buildKey(b.user), b.token))
}

// buildTries is how often a build reads SQL again because relationships changed in the meantime.
const buildTries = 3

// buildUnfinished says that the scan would take more pages than allowed.
const buildUnfinished = -1

// run scans and fills, and returns how far it came. ranked has the contacts that SQL had, in any
// case.
func (s *Store) run(ctx context.Context, b *build, pages int) (ranked *ranking, status int64, err error) {
	renew := func() error {
		if mine, err := b.begin(ctx, false); err != nil || mine {
			return err
		}
		return errLater
	}
	if pages > 0 {
		renew = nil // too short to need an extension
	}
	for range buildTries {
		relations, finished := b.relations, false
		ranked, finished, err = s.scan(ctx, b.user, b.x.max+1, pages, renew)
		if err != nil || !finished {
			return ranked, buildUnfinished, err
		}
		b.relations = relations // extending the right read a later one
		if status, err = b.fill(ctx, ranked); err != nil || status != buildMoved {
			break
		}
	}
	return ranked, status, err
}

// built is the result of a build for a read. If it is finished, it is exact for reads that arrived
// before the build began.
type built struct {
	ranked   *ranking
	finished bool
	began    time.Time
}

// rebuildInline builds a user's index as part of a read. Reads of one process share one build. If
// another process builds, or Redis is full, the answer comes from SQL even so. The index of a user
// with many contacts is left to a job, and the result is then not finished.
func (s *Store) rebuildInline(ctx context.Context, user string) (built, error) {
	return s.shared(ctx, user, func(ctx context.Context) (built, error) { return s.buildOnce(ctx, user) })
}

// shared runs one build for all reads of this process that need the key while it runs. The build
// goes on if a reader leaves.
func (s *Store) shared(ctx context.Context, key string, build func(context.Context) (built, error)) (built, error) {
	ch := s.builds.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inlineLease)
		defer cancel()
		began := time.Now()
		b, err := build(ctx)
		b.began = began
		return b, err
	})
	select {
	case <-ctx.Done():
		return built{}, api.Errorf(api.CodeUnavailable, "the recent contacts could not be built in time").Because(ctx.Err())
	case r := <-ch:
		out, _ := r.Val.(built)
		return out, r.Err
	}
}

// firstFromRecord finds a user's most recent contact only in SQL, however many contacts there are.
// Reads of one process share a scan, as they share a build. A scan that had begun before this read
// arrived may have missed an upload, so the read then uses the next scan.
func (s *Store) firstFromRecord(ctx context.Context, user string) ([]record.Activity, error) {
	came := time.Now()
	for { // at most twice: the next scan begins after this one
		b, err := s.shared(ctx, "all "+user, func(ctx context.Context) (built, error) {
			leave, ok := enter(ctx, s.readScans, inlineLease)
			if !ok {
				return built{}, api.Errorf(api.CodeUnavailable, "too many requests go through all contacts just now")
			}
			defer leave()
			ranked, _, err := s.scan(ctx, user, 1, 0, nil)
			return built{ranked: ranked, finished: true}, err
		})
		if err != nil {
			return nil, err
		}
		if !b.began.Before(came) {
			return b.ranked.first(1), nil
		}
	}
}

func (s *Store) buildOnce(ctx context.Context, user string) (built, error) {
	leave, ok := enter(ctx, s.scans, scanPatience)
	if !ok {
		return built{}, nil
	}
	defer leave()
	b := &build{x: s.index, user: user, token: readerToken + rand.Text(), lease: inlineLease}
	mine, err := b.begin(ctx, false)
	if err != nil && api.CodeOf(err) != api.CodeOverloaded {
		return built{}, err
	}
	if !mine {
		ranked, finished, err := s.scan(ctx, user, s.o.Max+1, s.o.InlinePages, nil)
		return built{ranked: ranked, finished: finished}, err
	}
	ranked, status, err := s.run(ctx, b, s.o.InlinePages)
	switch {
	case err == nil && status == buildUnfinished:
		s.announce(ctx, rebuildJob(user))
	case status != buildOK:
		b.release(ctx)
	}
	return built{ranked: ranked, finished: status != buildUnfinished}, err
}

// scanPatience is how long a read waits for its slot among the scans.
const scanPatience = 500 * time.Millisecond

// enter takes a slot for a scan of this process.
func enter(ctx context.Context, slots chan struct{}, patience time.Duration) (leave func(), ok bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, true
	case <-ctx.Done():
	case <-timer.C:
	}
	return nil, false
}
