package e2e

import (
	"slices"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// servers lists the processes, as one of them answers.
func (p *program) servers() []api.Server {
	p.t.Helper()
	var list api.ServerList
	p.must(200, &list, "GET", "/v1/servers", nil)
	return list.Items
}

// serverOf finds the only process with this role.
func serverOf(all []api.Server, role string) *api.Server {
	i := slices.IndexFunc(all, func(s api.Server) bool { return slices.Contains(s.Roles, role) })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Every process is listed, whatever its role. One that is killed goes 15 s after it was seen last, and
// not before; one that is stopped goes at once.
func TestN17_ProcessesComeAndGo(t *testing.T) {
	t.Parallel()
	began := time.Now()
	vars := []string{"FANFARE_REDIS_URL=" + storetest.Redis(t).URL(), "FANFARE_DATABASE_URL=" + storetest.MySQL(t)}
	front := mustServe(t, t.TempDir(), append(vars, "FANFARE_ROLES=api")...)
	killed := mustServe(t, t.TempDir(), append(vars, "FANFARE_ROLES=push", "FANFARE_SHARD_SET=0-2,5")...)
	stopped := mustServe(t, t.TempDir(), append(vars, "FANFARE_ROLES=jobs")...)
	storetest.Eventually(t, time.Minute, "all are listed", func() bool { return len(front.servers()) == 3 })
	all := front.servers()
	shards := map[string][]int{"api": {}, "push": {0, 1, 2, 5}, "jobs": {0, 1, 2, 3, 4, 5, 6, 7}}
	for role, want := range shards {
		s := serverOf(all, role)
		if s == nil || s.ID == "" || s.Version == "" || !slices.Equal(s.Shards, want) || s.StartedAt.Before(began.Add(-time.Second)) || s.SeenAt.Before(s.StartedAt.Time) {
			t.Errorf("%s: %+v", role, s)
		}
	}
	if code, _ := stopped.terminate(); code != 0 {
		t.Errorf("it stopped with %d", code)
	}
	if s := serverOf(front.servers(), "jobs"); s != nil {
		t.Errorf("a process that stopped is still listed: %+v", s)
	}
	killed.kill()
	seenLast := time.Now()
	storetest.Eventually(t, time.Minute, "the killed process is off the list", func() bool {
		s := serverOf(front.servers(), "push")
		if s != nil {
			seenLast = s.SeenAt.Time
		}
		return s == nil
	})
	if after := time.Since(seenLast); after < 15*time.Second {
		t.Errorf("it is gone %v after it was seen last", after)
	}
	seen := serverOf(front.servers(), "api")
	storetest.Eventually(t, time.Minute, "the other process is seen again", func() bool {
		now := serverOf(front.servers(), "api")
		return seen != nil && now != nil && now.SeenAt.After(seen.SeenAt.Time) && now.StartedAt.Equal(seen.StartedAt.Time)
	})
}
