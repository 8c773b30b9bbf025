package delivery

import (
	"container/list"
	"time"
)

const (
	// firstWindow is the window of an app that has not answered yet.
	firstWindow = 1000
	// No process sends more than mostRate requests a second. So an app does not need more in flight than leave
	// at that rate within the least time of its answers: more of them would only wait, and take memory that the
	// processor's caches then lack. An app whose answers take no time has quickWindow, of which a large audience
	// takes 2,000.
	mostRate, quickWindow = 200_000, 3000
	// An app that has requests under way and gave no answer for hangsAfter has a window of
	// hangingWindow, and no request waits for it.
	hangingWindow = 100
	hangsAfter    = 2 * time.Second
	// An app whose answers take lateAfter times the least time of the last leastFor, or up to twice that, has
	// half of its share: something is at its limit, and more requests in flight would only wait. Half of eight
	// ninths is four fifths of what stays free then.
	lateAfter = 2
	leastFor  = 30 * time.Second
)

// window is what one app has in flight and how it answers. It is removed when the app has nothing in
// flight and nothing waits for it.
type window struct {
	taken    int
	answered time.Time        // the last answer, or when the first request was taken
	lately   time.Duration    // from request to answer, a moving mean; 0: there was no answer yet
	least    [2]time.Duration // the least time of a delivery in the present leastFor, and in the one before; 0: unknown
	since    time.Time        // when the present one began
	waiters  [2]list.List     // of *waiter: single requests and small events, parts of large audiences
	waiting  int
}

// note records an answer. Refusals may be quicker than any delivery: they do not count for the least time.
func (w *window) note(now time.Time, delivered bool, took time.Duration) {
	switch passed := now.Sub(w.since); {
	case passed > 2*leastFor:
		w.since, w.least = now, [2]time.Duration{}
	case passed > leastFor:
		w.since, w.least = now, [2]time.Duration{0, w.least[0]}
	}
	if delivered && (w.least[0] == 0 || took < w.least[0]) {
		w.least[0] = took
	}
	if w.lately == 0 {
		w.lately = took
	}
	w.lately += (took - w.lately) / 16
	w.answered = now
}

// hangs reports whether an app has requests under way and does not answer.
func (w *window) hangs(now time.Time) bool { return w.taken > 0 && now.Sub(w.answered) > hangsAfter }

// size is how many requests the app may have in flight if so many places stay free.
func (w *window) size(now time.Time, free int) int {
	share := freeShare * free
	least := w.least[0]
	if before := w.least[1]; before > 0 && (least == 0 || before < least) {
		least = before
	}
	switch {
	case w.hangs(now):
		return min(hangingWindow, share)
	case w.lately == 0:
		return min(firstWindow, share)
	case least == 0: // it has refused everything
		return share
	case w.lately > lateAfter*least: // it is late
		share = free * 4 / 5
	}
	return min(share, max(quickWindow, int(least.Seconds()*mostRate)))
}

// place finds the place in line of what came then: the last waiter that came before it, if there is one, and how many requests
// enter before it. It may wait if these are fewer than soon. How many it has itself does not matter: pieces of an event would
// find no place beside single requests otherwise.
func (w *window) place(part bool, came time.Time) (before *list.Element, ahead int) {
	ahead = w.waiting
	for before = w.waiters[kind(part)].Back(); before != nil; before = before.Prev() {
		one := before.Value.(*waiter)
		if !one.came.After(came) {
			break
		}
		ahead -= one.size()
	}
	return before, ahead
}

// soon is how many requests may wait ahead of one that waits for the app: as many as the app is likely to take within the
// patience of that one, by those that it has under way and the time of its answers. For parts it is less, because other
// processes may have room for them.
func (w *window) soon(now time.Time, part bool) int {
	n := firstWindow
	switch {
	case w.hangs(now):
		return 0
	case w.lately > 0 && w.taken > 0:
		n = int(float64(w.taken) * float64(patience) / float64(w.lately))
	}
	if part {
		return n / 4
	}
	return n
}
