package handlers_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// outages are ways in which a Redis does not take what a call has to tell it. Each returns what ends it.
var outages = map[string]func(t *testing.T, w *world, r *storetest.RedisServer) (end func()){
	"ReadOnly": func(t *testing.T, _ *world, r *storetest.RedisServer) func() {
		return refuseWrites(t, r, []any{"REPLICAOF", "127.0.0.1", storetest.FreePort(t)}, []any{"REPLICAOF", "NO", "ONE"})
	},
	"TooFewReplicas": func(t *testing.T, _ *world, r *storetest.RedisServer) func() {
		return refuseWrites(t, r, []any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"})
	},
	"Full": func(t *testing.T, w *world, r *storetest.RedisServer) func() {
		end := refuseWrites(t, r, []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"})
		storetest.Eventually(t, soon, "the process knows that Redis is full", func() bool { return w.db.Overloaded() != nil })
		return end
	},
	"Hanging": func(_ *testing.T, _ *world, r *storetest.RedisServer) func() { r.Pause(); return r.Resume },
	"Dead":    func(_ *testing.T, _ *world, r *storetest.RedisServer) func() { r.Kill(); return r.Restart },
}

// refuseWrites runs a command after which the server refuses writes, and returns what runs the command that ends that.
func refuseWrites(t *testing.T, r *storetest.RedisServer, begin, end []any) func() {
	t.Helper()
	storetest.Must(t, r.Client().Do(t.Context(), begin...).Err())
	storetest.Eventually(t, soon, "writes are refused", func() bool { return r.Client().Set(t.Context(), "probe", 1, 0).Err() != nil })
	return func() { storetest.Must(t, r.Client().Do(context.Background(), end...).Err()) }
}

// Failure table, O1, O2: while Redis takes no writes, is full, hangs or is dead, the calls are answered 503, whoever they are about. When
// it is back, repeats count each user once, and each count is told by one fact.
func TestO2_RepeatsAfterAnOutageOfRedis(t *testing.T) {
	t.Parallel()
	for name, begin := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
			w := setupOn(t, storetest.Open(t, server.URL()))
			id := w.mustOpened("bob", "eve")
			admin := "Authorization: Bearer " + w.mustKey(api.ScopeAdmin)
			tell := func(what, user string) answer {
				t.Helper()
				return w.do(post("/v1/events/"+id+"/"+what, `{"user":"`+user+`"}`).with(admin))
			}
			insist := func(what, user string, status int) {
				t.Helper()
				storetest.Eventually(t, soon, what+" by "+user, func() bool {
					a := tell(what, user)
					if a.status != status && a.status != 503 {
						t.Fatalf("%s by %s: %d %s", what, user, a.status, a.body)
					}
					return a.status == status
				})
			}
			insist("opened", "bob", 204)
			end := begin(t, w, server)
			for _, user := range []string{"bob", "eve", "zoe"} {
				for _, what := range []string{"opened", "dismissed"} {
					codes := []api.Code{api.CodeUnavailable, api.CodeUnknownOutcome}
					if name == "Full" {
						codes = []api.Code{api.CodeOverloaded}
					}
					if a := tell(what, user); a.status != 503 || !slices.Contains(codes, api.Code(a.member(t, "code"))) {
						t.Errorf("%s by %s: %d %s", what, user, a.status, a.body)
					}
				}
			}
			end()
			var want []string
			for _, user := range []string{"bob", "eve"} {
				for _, what := range []string{"opened", "dismissed"} {
					insist(what, user, 204)
					insist(what, user, 204)
					want = append(want, "notification."+what+" "+user)
				}
			}
			insist("opened", "zoe", 404) // who got no notification
			if a := w.do(get("/v1/events/" + id).with(admin)); !strings.Contains(a.body, `"opened":2,"dismissed":2,`) {
				t.Errorf("the report is %d %s", a.status, a.body)
			}
			var list factList
			storetest.Must(t, json.Unmarshal([]byte(w.do(get("/v1/facts").with(admin)).body), &list))
			var told []string
			for _, f := range list.Items {
				var d struct{ User string }
				storetest.Must(t, json.Unmarshal(f.Data, &d))
				told = append(told, f.Type+" "+d.User)
			}
			slices.Sort(told)
			slices.Sort(want)
			if !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
		})
	}
}
