package contacts

import (
	"fmt"
	"strconv"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// R9: the first read above the cap has a job make the index a deep one. From then on
// nobody goes through the contacts any more, whatever changes, and the answers are exact.
func TestR9_ADeepIndexAnswersWithoutAScan(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 20, Page: 100, InlinePages: 5}, func(t *testing.T, w *world) {
		w.mustHave(t, "me", 900)
		w.mustRecent(t, "me", 10) // too many for a read to build
		w.work(t)
		w.waitForJobs(t)
		if n := len(w.members(t, "me")); n != 20 {
			t.Fatalf("the index of one who asks for few has %d members", n)
		}
		w.want(t, "me", 500, w.bruteForce(t, "me", 500))
		w.waitForJobs(t)
		if n := len(w.members(t, "me")); n != 600 {
			t.Fatalf("the index has %d members", n)
		}
		unscanned := func(what string) {
			t.Helper()
			w.forbidScans()
			defer w.allowScans()
			for _, n := range []int{500, 121, 21, 20, 1} {
				if got, want := w.mustRecent(t, "me", n), w.bruteForce(t, "me", n); got != want {
					t.Errorf("%s, the first %d: %.200s, want %.200s", what, n, got, want)
				}
			}
		}
		unscanned("deep")
		for i := range 40 { // they trim the index, and some of it is removed
			w.mustUpload(t, "new"+strconv.Itoa(i), fmt.Sprintf("me-%06d", 17*i), api.VisiblePublic, int64(2000+i))
		}
		for i := range 20 {
			w.mustRemove(t, "me", fmt.Sprintf("me-%06d", 17*i))
			storetest.Must(t, w.DeleteUpload(t.Context(), "new"+strconv.Itoa(20+i)))
		}
		w.waitForJobs(t)
		unscanned("changed")
		w.wantSound(t, "me")
		if n := len(w.members(t, "me")); n > 600 {
			t.Errorf("the index has %d members", n)
		}
	})
}
