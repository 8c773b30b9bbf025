package contacts

import (
	"context"
	"sync"

	"fanfare/api"
	"fanfare/store/record"
)

// wideReads are the reads that only SQL can answer: those above the cap, as long as the
// user has no deep index, which the first of them asks for. Each goes through all
// contacts of a user.
//
// Reads of one user share a scan, so that it does not matter how many there are.
// A read joins only a scan that begins after it came: one that is under way may
// have passed a contact before an upload that the read must show.
//
// Scans have slots of their own, so that builds of the index never wait for them.
// Long scans have other slots than short ones, so that users with few contacts do
// not wait for those with many.
type wideReads struct {
	short, long chan struct{}
	mu          sync.Mutex
	running     map[string]*wideScan // by user
}

func newWideReads(slots int) *wideReads {
	return &wideReads{
		short: make(chan struct{}, max(1, slots/2)), long: make(chan struct{}, max(1, slots/4)),
		running: map[string]*wideScan{},
	}
}

// wideScan is one scan for all who wait for it. Its fields belong to the lock of
// wideReads till done is closed.
type wideScan struct {
	ctx     context.Context
	cancel  context.CancelFunc // once nobody waits any more
	waiting int
	size    int
	next    *wideScan // for those who came while this one ran
	done    chan struct{}
	ranked  *ranking
	err     error
}

// join gives a scan that has not begun, and tells whether the caller has to see
// to it that it does.
func (w *wideReads) join(ctx context.Context, user string, n int) (scan *wideScan, begin bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch running := w.running[user]; {
	case running == nil:
		scan, begin = newWideScan(ctx), true
		w.running[user] = scan
	case running.next == nil || running.next.waiting == 0: // given up
		running.next = newWideScan(ctx)
		fallthrough
	default:
		scan = running.next
	}
	scan.waiting++
	scan.size = max(scan.size, n)
	return scan, begin
}

func newWideScan(ctx context.Context) *wideScan {
	s := &wideScan{size: api.MaxRecent, done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// leave ends a scan that nobody waits for.
func (w *wideReads) leave(scan *wideScan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if scan.waiting--; scan.waiting == 0 {
		scan.cancel()
	}
}

// following is the scan to begin after one of a user, nil when there is none.
func (w *wideReads) following(user string, scan *wideScan) *wideScan {
	w.mu.Lock()
	defer w.mu.Unlock()
	if scan.next == nil {
		delete(w.running, user)
	} else {
		w.running[user] = scan.next
	}
	return scan.next
}

// fromRecord answers from SQL alone, exactly, however many contacts there are.
func (s *Store) fromRecord(ctx context.Context, user string, n int) ([]record.Activity, error) {
	scan, begin := s.wide.join(ctx, user, n)
	defer s.wide.leave(scan)
	if begin {
		go s.scanWide(user, scan)
	}
	select {
	case <-scan.done:
	case <-ctx.Done():
		return nil, api.Errorf(api.CodeUnavailable, "the contacts could not be gone through in time").Because(ctx.Err())
	}
	if scan.err != nil {
		return nil, scan.err
	}
	return scan.ranked.first(n), nil
}

// scanWide runs a user's scans one after the other until nobody asks for more.
func (s *Store) scanWide(user string, scan *wideScan) {
	for ; scan != nil; scan = s.wide.following(user, scan) {
		scan.ranked, scan.err = s.rankWide(scan.ctx, user, scan.size)
		close(scan.done)
	}
}

// rankWide scans in a slot for short scans, and after as many pages as a read may
// take to build an index, in one for long scans.
func (s *Store) rankWide(ctx context.Context, user string, size int) (*ranking, error) {
	leave, err := s.wide.enter(ctx, s.wide.short)
	if err != nil {
		return nil, err
	}
	defer func() { leave() }()
	pages := 0
	ranked, _, err := s.scan(ctx, user, size, 0, func() error {
		if pages++; pages != s.o.InlinePages {
			return nil
		}
		leave()
		leave, err = s.wide.enter(ctx, s.wide.long)
		return err
	})
	return ranked, err
}

// enter waits for a slot as long as somebody waits for the scan.
func (w *wideReads) enter(ctx context.Context, slots chan struct{}) (leave func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return func() {}, api.Errorf(api.CodeUnavailable, "too many requests go through contacts just now")
	}
}
