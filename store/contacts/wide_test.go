package contacts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// mustHave gives a user so many contacts on record, each with one public upload.
func (w *world) mustHave(t testing.TB, user string, n int) {
	t.Helper()
	all := make([]record.Contact, n)
	for i := range all {
		all[i] = record.Contact{Owner: user, Contact: fmt.Sprintf("%s-%06d", user, i), Relationship: "friend"}
	}
	for part := range slices.Chunk(all, 500) {
		storetest.Must(t, w.rec.PutContacts(t.Context(), part...))
	}
	for from := 0; from < n; from += 1000 {
		var args []any
		for i := from; i < min(from+1000, n); i++ {
			args = append(args, all[i].Contact+"-up", all[i].Contact, 1000+(i*7919)%n)
		}
		values := strings.TrimSuffix(strings.Repeat("(?, ?, 'public', FALSE, ?, 0, 0), ", len(args)/3), ", ")
		_, err := w.sql.ExecContext(t.Context(), "INSERT INTO uploads (id, owner, visibility, deleted, uploaded_at, created_at, updated_at) VALUES "+values, args...)
		storetest.Must(t, err)
	}
}

// readers lets so many read the 500 most recent of a user at once; wait gives
// their answers, each once.
func (w *world) readers(ctx context.Context, user string, n int) (wait func() map[string]int) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]int{}
	for range n {
		wg.Go(func() {
			got, err := w.RecentContacts(ctx, user, 500)
			text := fmt.Sprint(err)
			if err == nil {
				text = write(got)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[text]++
		})
	}
	return func() map[string]int {
		wg.Wait()
		return answers
	}
}

// R9: any number of reads above the cap of a user with many contacts are answered
// exactly, in two scans for all of them, and nobody else waits: neither a user
// whose index must be built, nor one with few contacts who asks above the cap.
func TestR9_ReadsAboveTheCapCostOthersNothing(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 20, Page: 100, InlinePages: 5}, func(t *testing.T, w *world) {
		w.mustHave(t, "me", 1500)
		w.mustHave(t, "other", 60)
		w.mustHave(t, "new", 60)
		for range cap(w.wide.long) { // what goes on for long stands still
			w.wide.long <- struct{}{}
		}
		wait := w.readers(t.Context(), "me", 20)
		storetest.Eventually(t, testPatience, "one scan for the first, one for all others", func() bool {
			first, rest := w.wide.waiting("me")
			return first == 1 && rest == 19
		})
		w.want(t, "other", 50, w.bruteForce(t, "other", 50))
		w.want(t, "new", 10, w.bruteForce(t, "new", 10))
		for range cap(w.wide.long) {
			<-w.wide.long
		}
		if got := wait(); len(got) != 1 || got[w.bruteForce(t, "me", 500)] != 20 {
			t.Errorf("%d different answers of 20: %.300v", len(got), got)
		}
		storetest.Eventually(t, testPatience, "nothing runs any more", func() bool {
			first, rest := w.wide.waiting("me")
			return first == 0 && rest == 0 && len(w.wide.short)+len(w.wide.long) == 0
		})
	})
}

// waiting counts who waits for a user's present scan, and for the next.
func (w *wideReads) waiting(user string) (first, rest int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	scan := w.running[user]
	if scan == nil {
		return 0, 0
	}
	if scan.next != nil {
		rest = scan.next.waiting
	}
	return scan.waiting, rest
}

// A read sees what was uploaded before it came, though a scan that had passed the
// contact is under way.
func TestR9_ASharedScanIsNoOlderThanTheRead(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 20, Page: 100, InlinePages: 5}, func(t *testing.T, w *world) {
		w.mustHave(t, "me", 1000)
		for range cap(w.wide.long) {
			w.wide.long <- struct{}{}
		}
		first := w.readers(t.Context(), "me", 1)
		storetest.Eventually(t, testPatience, "the first scan has passed the first contacts", func() bool {
			n, _ := w.wide.waiting("me")
			return n == 1 && len(w.wide.short) == 0
		})
		w.mustUpload(t, "now", "me-000000", api.VisiblePublic, 1_000_000)
		second := w.readers(t.Context(), "me", 1)
		storetest.Eventually(t, testPatience, "the second waits", func() bool {
			_, n := w.wide.waiting("me")
			return n == 1
		})
		for range cap(w.wide.long) {
			<-w.wide.long
		}
		first()
		if want := w.bruteForce(t, "me", 500); second()[want] != 1 || !strings.HasPrefix(want, "me-000000@1000000 ") {
			t.Errorf("the second read misses the upload before it: %.100v, want %.100s", second(), want)
		}
	})
}

// A scan ends when all who waited for it have gone, and the next reader gets one
// of its own.
func TestR9_NobodyScansForNobody(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 20, Page: 100, InlinePages: 5}, func(t *testing.T, w *world) {
		w.mustHave(t, "me", 1000)
		for range cap(w.wide.long) {
			w.wide.long <- struct{}{}
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := w.readers(ctx, "me", 5)
		storetest.Eventually(t, testPatience, "they wait", func() bool {
			first, rest := w.wide.waiting("me")
			return first == 1 && rest == 4
		})
		cancel()
		gone()
		storetest.Eventually(t, testPatience, "no scan is left", func() bool {
			w.wide.mu.Lock()
			defer w.wide.mu.Unlock()
			return len(w.wide.running) == 0
		})
		for range cap(w.wide.long) {
			<-w.wide.long
		}
		w.want(t, "me", 500, w.bruteForce(t, "me", 500))
	})
}
