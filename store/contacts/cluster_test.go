package contacts

import (
	"fmt"
	"testing"

	"fanfare/store/storetest"
)

// On a Cluster every user's index has a slot of its own: a fan-out goes to all
// masters.
func TestCluster(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Cluster(t).URL(), storetest.SQLite(t), Options{Max: 5, Min: 2, Page: 10})
	for i := range 30 {
		w.mustPut(t, fmt.Sprint("viewer", i), "star", "friend")
		w.want(t, fmt.Sprint("viewer", i), 1, "")
	}
	for i := range 8 {
		c := fmt.Sprint("c", i)
		w.mustPut(t, "viewer0", c, "friend")
		w.mustUpload(t, "u"+c, c, "public", int64(i+1))
	}
	w.work(t)
	w.mustUpload(t, "u1", "star", "public", 50)
	w.waitForJobs(t)
	for i := range 30 {
		user := fmt.Sprint("viewer", i)
		w.want(t, user, 3, w.bruteForce(t, user, 3))
		if got := w.members(t, user); len(got) == 0 || got[0] != "star@50" {
			t.Fatalf("%s: %v", user, got)
		}
	}
	w.mustRemove(t, "viewer0", "star")
	w.want(t, "viewer0", 5, w.bruteForce(t, "viewer0", 5))
}
