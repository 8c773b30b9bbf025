package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// retryOfCallers notes with which letters it was called. Jobs that are called taken cannot be retried.
const retryOfCallers = `-- Queues a job again.
-- KEYS: 1 the records, 2 never
-- ARGV: 1 id, 2.. as those of dead_retry.lua
-- RETURNS: {1 queued}, {4 its unique id belongs to another job}
if string.match(ARGV[1], 'taken') then return { 4 } end
redis.call('RPUSH', string.sub(KEYS[1], 1, -5) .. 'retried', ARGV[1] .. ' ' .. ARGV[8])
return { 1 }
`

// callersLetter is a dead letter of a callers' queue.
type callersLetter struct{ id, queue, kind, reason, payload string }

// setupCallers makes the queue that has the dead letters of callers' queues. Nothing else is ever stored in it.
func setupCallers(t testing.TB, db *redisdb.DB) *world {
	t.Helper()
	script, err := redisdb.NewScript(fstest.MapFS{"retry.lua": {Data: []byte(retryOfCallers)}}, "retry.lua")
	storetest.Must(t, err)
	w := &world{t: t, db: db, o: queue.Options{Name: "t" + queue.NewID(0, time.Now())[8:16], Kind: api.DeadJob, Shards: 64, Retry: script}}
	w.q = queue.New(db, w.o)
	return w
}

// key names a key in the slot of a callers' queue.
func (w *world) key(queue, name string) string { return w.q.KeyBeside(w.q.Route(queue), name) }

// mustDie writes letters as store/jobs does, and returns their own ids.
func (w *world) mustDie(all ...callersLetter) (eids []string) {
	w.t.Helper()
	c, ctx := w.db.Client(), w.t.Context()
	for n, l := range all {
		eid, err := c.XAdd(ctx, &redis.XAddArgs{Stream: w.key(l.queue, "dead"), Values: []any{
			"i", l.id, "t", l.kind, "k", "k1", "u", "", "g", "", "w", "8", "s", "1", "a", "", "p", l.payload, "reason", l.reason, "err", "refused",
			"label", "job", "attempts", 8, "fence", 17, "report", "", "class", l.kind + "\x1f" + l.queue,
		}}).Result()
		storetest.Must(w.t, err)
		storetest.Must(w.t, c.HSet(ctx, w.key(l.queue, "deadids"), l.id, eid).Err())
		storetest.Must(w.t, c.ZAdd(ctx, w.key(l.queue, "deadof:"+l.queue), redis.Z{Score: float64(n), Member: eid}).Err())
		eids = append(eids, eid)
	}
	return eids
}

// deadOf lists the letters that are counted for a callers' queue.
func (w *world) deadOf(queue string) []string {
	return w.db.Client().ZRange(w.t.Context(), w.key(queue, "deadof:"+queue), 0, -1).Val()
}

func (w *world) deadID(l callersLetter) string { return w.q.DeadID(w.q.Route(l.queue), l.id) }

// someLetters are letters of two queues. The name of one of them begins as that of the other does.
func someLetters() (all []callersLetter) {
	for n := range 6 {
		name := []string{"mail", "mail/out"}[n%2]
		all = append(all, callersLetter{fmt.Sprintf("%s.job%d", name, n), name, []string{"send", "bounce"}[n/3], "max_attempts", `{"n":1}`})
	}
	all[4].payload = ""
	return all
}

// J9: dead jobs of callers' queues are listed and counted by queue, and by type and reason.
func TestJ9_DeadLettersOfCallersQueues(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w, own := setupCallers(t, db), setup(t, db)
		if groups, err := w.q.DeadGroups(t.Context()); err != nil || len(groups) != 0 {
			t.Errorf("nobody has died: %+v, %v", groups, err)
		}
		all := someLetters()
		w.mustDie(all...)
		own.mustBury(dying{"max_attempts", "send", "mail"})
		ids := func(f queue.DeadFilter) (ids []string) {
			t.Helper()
			list, err := queue.DeadLetters(t.Context(), f, "", 100, own.q, w.q)
			storetest.Must(t, err)
			for _, d := range list.Items {
				if d.Kind == api.DeadJob && (d.App != "" || d.Queue == "" || d.Type == "" || d.Attempts != 8 || d.LastError != "refused") || d.Kind != api.DeadJob && d.Queue != "" {
					t.Errorf("%+v", d)
				}
				ids = append(ids, d.ID)
			}
			slices.Sort(ids)
			return ids
		}
		chosen := func(fits func(l callersLetter) bool) (ids []string) {
			for _, l := range all {
				if fits(l) {
					ids = append(ids, w.deadID(l))
				}
			}
			slices.Sort(ids)
			return ids
		}
		for f, fits := range map[queue.DeadFilter]func(l callersLetter) bool{
			{Queue: "mail"}:                   func(l callersLetter) bool { return l.queue == "mail" },
			{Queue: "mail/out"}:               func(l callersLetter) bool { return l.queue == "mail/out" },
			{Queue: "mail", Type: "send"}:     func(l callersLetter) bool { return l.queue == "mail" && l.kind == "send" },
			{Queue: "mai"}:                    func(callersLetter) bool { return false },
			{Queue: "mail", App: "mail"}:      func(callersLetter) bool { return false },
			{Type: "bounce"}:                  func(l callersLetter) bool { return l.kind == "bounce" },
			{Queue: "mail", Reason: "no_one"}: func(callersLetter) bool { return false },
		} {
			if got, want := ids(f), chosen(fits); !slices.Equal(got, want) {
				t.Errorf("%+v: %q, want %q", f, got, want)
			}
			if n := w.mustCount(f, time.Now().Add(time.Hour)); n != int64(len(chosen(fits))) {
				t.Errorf("%+v: %d are counted", f, n)
			}
		}
		if got := ids(queue.DeadFilter{App: "mail"}); len(got) != 1 || !strings.HasPrefix(got[0], own.o.Name) {
			t.Errorf("of an app: %q", got)
		}
		if got := ids(queue.DeadFilter{}); len(got) != len(all)+1 {
			t.Errorf("all: %q", got)
		}
		list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{Queue: "mail", Type: "bounce"}, "", 1, w.q)
		if err != nil || len(list.Items) != 1 || len(list.Items[0].Payload) != 0 {
			t.Errorf("a job without a payload: %+v, %v", list, err)
		}
		groups, err := w.q.DeadGroups(t.Context())
		storetest.Must(t, err)
		group := func(kind, queue string, n int64) api.DeadLetterGroup {
			return api.DeadLetterGroup{Kind: api.DeadJob, Reason: "max_attempts", Type: kind, Queue: queue, Count: n}
		}
		want := []api.DeadLetterGroup{group("send", "mail", 2), group("bounce", "mail/out", 2), group("bounce", "mail", 1), group("send", "mail/out", 1)}
		for _, g := range want {
			if !slices.Contains(groups, g) || len(groups) != len(want) {
				t.Errorf("groups %+v lack %+v", groups, g)
			}
		}
	})
}

// J9: letters that leave, one by one or many at once, leave the count of their queue too.
func TestJ9_DeletingThem(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w, all := setupCallers(t, db), someLetters()
		w.mustDie(all...)
		storetest.Must(t, w.q.DeleteDead(t.Context(), w.deadID(all[0])))
		storetest.WantCode(t, w.q.DeleteDead(t.Context(), w.deadID(all[0])), api.CodeNotFound)
		if mail, out := w.deadOf("mail"), w.deadOf("mail/out"); len(mail) != 2 || len(out) != 3 {
			t.Errorf("%q and %q are counted", mail, out)
		}
		if gone, kept := w.mustWalk(w.q.DeleteDeadPage, queue.DeadFilter{Queue: "mail/out"}, w.now()); gone != 3 || kept != 0 {
			t.Errorf("%d are gone, %d are left", gone, kept)
		}
		if mail, out := w.deadOf("mail"), w.deadOf("mail/out"); len(mail) != 2 || len(out) != 0 {
			t.Errorf("%q and %q are counted", mail, out)
		}
		if gone, _ := w.mustWalk(w.q.DeleteDeadPage, queue.DeadFilter{}, w.now()); gone != 2 {
			t.Errorf("%d are gone", gone)
		}
		for _, key := range w.mustKeys() {
			if !strings.HasSuffix(key, "}:dead") {
				t.Errorf("%s is left", key)
			}
		}
	})
}

// J9: a queue's own script retries its letters, one by one and many at once.
func TestJ9_RetryingThem(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w, all := setupCallers(t, db), someLetters()
		all[2].id = "mail.taken"
		eids := w.mustDie(all...)
		if _, stored, err := w.q.RetryDead(t.Context(), w.deadID(all[0]), queue.Once{Answer: "a"}); err != nil || stored != "a" {
			t.Errorf("%q, %v", stored, err)
		}
		_, _, err := w.q.RetryDead(t.Context(), w.deadID(all[2]), queue.Once{})
		storetest.WantCode(t, err, api.CodeConflict)
		if gone, kept := w.mustWalk(w.q.RetryDeadPage, queue.DeadFilter{Queue: "mail"}, w.now()); gone != 2 || kept != 1 {
			t.Errorf("%d are gone, %d are left", gone, kept)
		}
		retried := db.Client().LRange(t.Context(), w.key("mail", "retried"), 0, -1).Val()
		want := []string{all[0].id + " ", all[4].id + " " + eids[4], all[0].id + " " + eids[0]} // newest first
		if !slices.Equal(retried, want) || len(w.deadOf("mail/out")) != 3 {
			t.Errorf("retried %q, want %q", retried, want)
		}
	})
}

// N14: the 10,000 letters that are told apart are those of the shards that have some.
func TestN14_FewShardsHaveLetters(t *testing.T) {
	t.Parallel()
	w := setupCallers(t, storetest.Open(t, storetest.Redis(t).URL()))
	w.mustDie(slices.Repeat([]callersLetter{{"mail.job", "mail", "send", "max_attempts", ""}}, 1200)...)
	groups, err := w.q.DeadGroups(t.Context())
	if err != nil || len(groups) != 1 || groups[0].Count != 1200 || groups[0].Queue != "mail" {
		t.Errorf("%+v, %v", groups, err)
	}
}
