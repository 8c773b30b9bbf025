package e2e

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// crons are schedules that are due once an hour, most recently at latest: long before the test, which ends long before
// they are due again. The test moves them back in the database, so that processes have missed due times.
type crons struct {
	t      testing.TB
	db     *sql.DB
	latest time.Time
}

func newCrons(t testing.TB, database string) *crons {
	t.Helper()
	db := mustOpenSQL(t, database)
	t.Cleanup(func() { _ = db.Close() })
	return &crons{t: t, db: db, latest: time.Now().UTC().Truncate(time.Minute).Add(-20 * time.Minute)}
}

// put makes a schedule whose jobs go to the queue q with the id of the schedule as payload.
func (c *crons) put(p *program, id string) error {
	body := map[string]any{"queue": "q", "type": "t", "payload": id, "cron": fmt.Sprintf("%d * * * *", c.latest.Minute())}
	status, answer, err := p.try("PUT", "/v1/schedules/"+id, body)
	if err == nil && status != 201 {
		err = fmt.Errorf("%d %s", status, answer)
	}
	return err
}

// miss makes schedules due since three hours before latest.
func (c *crons) miss(like string) {
	c.t.Helper()
	_, err := c.db.Exec("UPDATE schedules SET next_at = ? WHERE id LIKE ?", c.latest.Add(-3*time.Hour).UnixMilli(), like)
	storetest.Must(c.t, err)
}

// ran counts the schedules whose last job is of a time.
func (c *crons) ran(like string, at time.Time) (n int) {
	c.t.Helper()
	storetest.Must(c.t, c.db.QueryRow("SELECT COUNT(*) FROM schedules WHERE id LIKE ? AND last_at = ? AND next_at = ?", like,
		at.UnixMilli(), at.Add(time.Hour).UnixMilli()).Scan(&n))
	return n
}

// mustHaveOne claims all jobs of the queue q, and checks that each schedule has one.
func (c *crons) mustHaveOne(p *program, schedules int) {
	c.t.Helper()
	seen := map[string]int{}
	for {
		jobs := p.claim("q", time.Hour, 100)
		for _, j := range jobs {
			seen[string(j.Payload)]++
		}
		if len(jobs) == 0 {
			break
		}
	}
	for id, n := range seen {
		if n != 1 {
			c.t.Errorf("schedule %s has %d jobs for one due time", id, n)
		}
	}
	if len(seen) != schedules {
		c.t.Errorf("%d of %d schedules have a job", len(seen), schedules)
	}
}

// All processes are killed while they enqueue the jobs of many schedules. Each schedule has one job, of the latest due
// time.
func TestJ10_KilledWhileSchedulesAreDue(t *testing.T) {
	t.Parallel()
	const rounds, n = 2, 150
	database := storetest.MySQL(t)
	vars := quick("FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+database)
	servers, c := mustServeMany(t, 2, vars...), newCrons(t, database)
	for round := range rounds {
		like := fmt.Sprintf("r%d-%%", round)
		servers[0].each(n, func(i int) error { return c.put(servers[i%2], fmt.Sprintf("r%d-%d", round, i)) })
		c.miss(like)
		storetest.Eventually(t, time.Minute, "some jobs are enqueued", func() bool { return c.ran(like, c.latest) > n/10 })
		for _, p := range servers {
			p.kill()
		}
		t.Logf("killed after %d of %d", c.ran(like, c.latest), n)
		servers = mustServeMany(t, 2, vars...)
		storetest.Eventually(t, time.Minute, "all jobs are enqueued", func() bool { return c.ran(like, c.latest) == n })
	}
	c.mustHaveOne(servers[0], rounds*n)
}

// Due times pass while Redis or the database is away. Of those that were missed only the latest is made up for, once.
func TestJ10_DueDuringAnAbsence(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"Redis", "SQL"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			redis, database := storetest.Redis(t, keepsAnswered...), storetest.MySQL(t)
			proxy, through := storetest.ProxyTo(t, database)
			servers := mustServeMany(t, 2, quick("FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+through, "FANFARE_LOG_LEVEL=info")...)
			c := newCrons(t, database)
			storetest.Must(t, c.put(servers[0], "s"))
			leave, come := redis.Kill, redis.Restart
			if what == "SQL" {
				leave, come = proxy.Cut, proxy.Mend
			}
			leave()
			c.miss("s")
			storetest.Eventually(t, time.Minute, "both processes have tried", func() bool {
				for _, p := range servers {
					if !strings.Contains(p.stderr.String(), "a schedule's job is not enqueued yet") {
						return false
					}
				}
				return true
			})
			come()
			storetest.Eventually(t, time.Minute, "the job is enqueued", func() bool { return c.ran("s", c.latest) == 1 })
			storetest.Eventually(t, time.Minute, "both processes know", func() bool {
				for _, p := range servers {
					if !strings.Contains(p.stderr.String(), "schedules' jobs are enqueued again") {
						return false
					}
				}
				return true
			})
			c.mustHaveOne(servers[1], 1)
		})
	}
}

// The process that answered the PUT is killed, and another one is started. The job of each minute comes within a second of
// its time from one of those that live.
func TestJ10_KilledAfterThePut(t *testing.T) {
	t.Parallel()
	vars := jobSettings(t, storetest.Redis(t))
	both := mustServeMany(t, 2, vars...)
	first, second := both[0], both[1]
	var s api.Schedule
	first.must(201, &s, "PUT", "/v1/schedules/s", map[string]any{"queue": "q", "type": "t", "payload": "s", "cron": "* * * * *"})
	first.kill()
	third := mustServeMany(t, 1, vars...)[0]
	// The second process knows of the schedule 15 s after the PUT at the latest, and the third as soon as it is ready.
	best, known, last := time.Hour, time.Now().Add(time.Second), s.NextAt.Add(2*time.Minute)
	for due := s.NextAt.Time; best > time.Second && !due.After(last); due = due.Add(time.Minute) {
		var jobs []api.ClaimedJob
		storetest.Eventually(t, 2*time.Minute, "the job is enqueued", func() bool {
			var err error
			jobs, err = third.tryClaim("q", time.Hour, map[string]any{"max": 10, "wait_ms": 10_000})
			storetest.Must(t, err)
			return len(jobs) > 0
		})
		j := second.mustBeJob(jobs[0].ID, api.JobRunning)
		if late := j.EnqueuedAt.Sub(due); len(jobs) != 1 || late < 0 || late > 50*time.Second {
			t.Fatalf("for %s %d jobs were enqueued, the first after %v", due, len(jobs), late)
		} else if due.After(known) {
			best = min(best, late)
		}
		second.say(jobs[0], "complete", api.JobOK)
		storetest.Eventually(t, time.Minute, "the schedule is advanced", func() bool {
			second.must(200, &s, "GET", "/v1/schedules/s", nil)
			return s.LastAt != nil && s.LastAt.Equal(due) && s.NextAt.Equal(due.Add(time.Minute))
		})
	}
	if best > time.Second {
		t.Errorf("the jobs come %v after their times at best", best)
	}
	if q := third.queueOf("q"); q.Depth+q.Running != 0 {
		t.Errorf("there are more jobs: %+v", q)
	}
}
