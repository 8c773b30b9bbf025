package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// dying is how a job dies, as the payload of its job.
type dying struct{ Reason, Type, App string }

func (d dying) job() queue.Job {
	payload, _ := json.Marshal(d) // always marshals
	return queue.Job{Payload: payload}
}

// bury gives up every job as its payload says.
func bury(_ context.Context, c *queue.Claimed) queue.Result {
	var d dying
	if json.Unmarshal(c.Payload, &d) == nil && d.Type != "" {
		c.Class = queue.ClassOf(d.Type, d.App)
	}
	return queue.Result{Outcome: queue.Dead, Reason: d.Reason, Err: "e"}
}

// mustBury makes dead letters and returns the ids of their jobs.
func (w *world) mustBury(all ...dying) []string {
	w.t.Helper()
	var jobs []queue.Job
	for _, d := range all {
		jobs = append(jobs, d.job())
	}
	ids := w.mustEnqueue(jobs...)
	stop := w.another().run(queue.Each(bury))
	w.mustBeEmpty()
	stop()
	return ids
}

// groups are the counts of dead letters, each as a word.
func (w *world) groups() (list []string) {
	w.t.Helper()
	all, err := w.q.DeadGroups(w.t.Context())
	storetest.Must(w.t, err)
	for _, g := range all {
		list = append(list, fmt.Sprintf("%s/%s/%s=%d", g.Reason, g.Type, g.App, g.Count))
	}
	slices.Sort(list)
	return list
}

func (w *world) wantGroups(want ...string) {
	w.t.Helper()
	if got := w.groups(); !slices.Equal(got, want) {
		w.t.Errorf("groups %q, want %q", got, want)
	}
}

func (w *world) dead(id string) string {
	shard, _ := queue.ParseID(id)
	return w.q.DeadID(shard, id)
}

// N14: the counts of dead letters are true whatever takes letters away, and whoever wrote them.
func TestN14_CountsOfDeadLetters(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards = 2; o.Lease = time.Hour })
		w.wantGroups()
		gone := dying{"Gone", "likes", "shop/production"}
		ids := w.mustBury(gone, gone, gone, gone, dying{"Gone", "news", ""}, dying{"Bad", "likes", "shop/production"}, dying{"Bad", "", ""})
		w.wantGroups("Bad//=1", "Bad/likes/shop/production=1", "Gone/likes/shop/production=4", "Gone/news/=1")

		storetest.Must(t, w.q.DeleteDead(t.Context(), w.dead(ids[0])))
		storetest.Must(t, w.q.DeleteDead(t.Context(), w.dead(ids[6])))
		if _, _, err := w.q.RetryDead(t.Context(), w.dead(ids[1]), queue.Once{}); err != nil {
			t.Fatal(err)
		}
		w.wantGroups("Bad/likes/shop/production=1", "Gone/likes/shop/production=2", "Gone/news/=1")
		w.mustBury(gone) // and the one that is tried again
		w.wantGroups("Bad/likes/shop/production=1", "Gone/likes/shop/production=4", "Gone/news/=1")
		w.mustBeConsistent()
	})
}

// N14: letters that are dropped for their number or age are not counted any more.
func TestN14_DroppedLettersAreNotCounted(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		old := dying{"Old", "likes", ""}
		w.mustBury(old, old, old)
		w.wantGroups("Old/likes/=3")
		w.mustBury(dying{"New", "likes", ""}, dying{"New", "likes", ""})
		looking := func(most int, age time.Duration, want ...string) {
			another := w.another()
			queue.SetDeadBounds(another.q, most, age)
			stop := another.run(queue.Each(bury))
			defer stop()
			eventually(t, "they are dropped", func() bool { return slices.Equal(w.groups(), want) })
		}
		looking(3, time.Hour, "New/likes/=2", "Old/likes/=1")
		w.mustBeConsistent()
		looking(3, time.Millisecond)
		w.mustBeConsistent()
	})
}

// N14: the newest letters of each shard are told apart, and the rest is counted together.
func TestN14_TheNewestAreToldApart(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *queue.Options) { o.Shards = 4 })
	w.mustBury(slices.Repeat([]dying{{"Old", "likes", ""}}, 3000)...)
	w.mustBury(slices.Repeat([]dying{{"New", "likes", ""}}, 9000)...)
	sum, of := int64(0), map[string]int64{}
	groups, err := w.q.DeadGroups(t.Context())
	storetest.Must(t, err)
	for _, g := range groups {
		sum, of[g.Reason] = sum+g.Count, g.Count
	}
	// The shards differ by chance: one may have fewer than its share of 2,500.
	if sum != 12000 || of["New"] < 8800 || of["New"] > 9000 || of[api.DeadLetterRest] < 2000 || of[api.DeadLetterRest] > 2300 {
		t.Errorf("%d letters in %v", sum, of)
	}
}

// N14: a list with a filter has each letter that fits once, newest first, whatever else there is.
func TestN14_DeadLettersByFilter(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards = 3 })
		var all []dying
		for n := range 300 {
			all = append(all, dying{[]string{"A", "B"}[n%2], []string{"likes", "news", ""}[n%3], []string{"shop/sandbox", "shop/fcm", "shopping/fcm", "a.b/webpush:x", ""}[n%5]})
		}
		ids := w.mustBury(all...)
		for f, fits := range map[queue.DeadFilter]func(d dying) bool{
			{}:                               func(dying) bool { return true },
			{Reason: "A"}:                    func(d dying) bool { return d.Reason == "A" },
			{Type: "news"}:                   func(d dying) bool { return d.Type == "news" },
			{App: "shop"}:                    func(d dying) bool { return d.Type != "" && strings.HasPrefix(d.App, "shop/") },
			{App: "shop/fcm"}:                func(d dying) bool { return d.Type != "" && d.App == "shop/fcm" },
			{App: "a.b"}:                     func(d dying) bool { return d.Type != "" && d.App == "a.b/webpush:x" },
			{App: "a.b", Reason: "B"}:        func(d dying) bool { return d.Type != "" && d.App == "a.b/webpush:x" && d.Reason == "B" },
			{Reason: "B", Type: "x"}:         func(dying) bool { return false },
			{App: "shop/fcm", Type: "likes"}: func(d dying) bool { return d.Type == "likes" && d.App == "shop/fcm" },
		} {
			want := map[string]bool{}
			for i, d := range all {
				if fits(d) {
					want[w.dead(ids[i])] = true
				}
			}
			last, cursor := time.Now().Add(time.Hour), ""
			for pages := 0; ; pages++ {
				page, err := queue.DeadLetters(t.Context(), f, cursor, 7, w.q)
				storetest.Must(t, err)
				for _, d := range page.Items {
					if !want[d.ID] || d.FailedAt.After(last) {
						t.Errorf("%+v: %+v after %v", f, d, last)
					}
					delete(want, d.ID)
					last = d.FailedAt.Time
				}
				if cursor = page.Next; cursor == "" || pages > 100 {
					break
				}
			}
			if len(want) > 0 {
				t.Errorf("%+v: %d are missing", f, len(want))
			}
		}
	})
}

// N14: a page with a filter looks at a bounded number of letters, and its next goes on from there.
func TestN14_APageLooksAtSoMany(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()))
	w.mustBury(dying{"Rare", "", ""})
	w.mustBury(slices.Repeat([]dying{{"Common", "", ""}}, 7000)...)
	found, cursor := 0, ""
	for pages := 1; ; pages++ {
		page, err := queue.DeadLetters(t.Context(), queue.DeadFilter{Reason: "Rare"}, cursor, 50, w.q)
		storetest.Must(t, err)
		found += len(page.Items)
		if cursor = page.Next; cursor == "" {
			if found != 1 || pages != 8 {
				t.Errorf("%d found on %d pages", found, pages)
			}
			return
		}
		if len(page.Items) > 0 || pages > 8 {
			t.Fatalf("page %d: %+v", pages, page)
		}
	}
}
