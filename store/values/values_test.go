package values

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// V1: a value is replaced and deleted only if the condition holds; the refusal has what is there.
func TestV1_Conditions(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		v, there, none := NewValues(db), named(t, "there"), named(t, "none")
		for _, c := range []struct {
			what  string
			match func(at int64) api.Match
			there bool // whether it holds for the value
			none  bool // whether it holds if there is none
		}{
			{"none", func(int64) api.Match { return api.Match{} }, true, true},
			{"any", func(int64) api.Match { return api.Match{Version: api.AnyVersion} }, true, false},
			{"absent", func(int64) api.Match { return api.Match{Absent: true} }, false, true},
			{"this", func(at int64) api.Match { return api.Match{Version: at} }, true, false},
			{"one of two", func(at int64) api.Match { return api.Match{Version: at + 1, Others: []int64{at}} }, true, false},
			{"another", func(at int64) api.Match { return api.Match{Version: at - 1} }, false, false},
			{"a tag of somebody else", func(int64) api.Match { return api.Match{Version: api.NoVersion} }, false, false},
			{"not this", func(at int64) api.Match { return api.Match{Except: []int64{at}} }, false, true},
			{"not another", func(at int64) api.Match { return api.Match{Except: []int64{at - 1}} }, true, true},
		} {
			at := mustPut(t, v, there, `{"n":1}`, 0)
			version, created, err := v.Put(t.Context(), there, json.RawMessage(`2`), 0, c.match(at))
			if refused(t, err, at) == c.there || c.there && (created || version <= at) {
				t.Errorf("put with %s: %d, %v, %v", c.what, version, created, err)
			}
			at = mustPut(t, v, there, `{"n":1}`, 0)
			if refused(t, v.Delete(t.Context(), there, c.match(at)), at) == c.there {
				t.Errorf("delete with %s", c.what)
			}
			version, created, err = v.Put(t.Context(), none, json.RawMessage(`2`), 0, c.match(at))
			if refused(t, err, 0) == c.none || c.none && (!created || version <= at) {
				t.Errorf("put with %s, though there is none: %d, %v, %v", c.what, version, created, err)
			}
			storetest.Must(t, v.Delete(t.Context(), none, api.Match{}))
			if refused(t, v.Delete(t.Context(), none, c.match(at)), 0) == c.none {
				t.Errorf("delete with %s, though there is none", c.what)
			}
		}
	})
}

// refused reports whether an error says that a condition does not hold, with the value {"n":1} of a version; 0: none.
func refused(t testing.TB, err error, at int64) bool {
	t.Helper()
	if err == nil {
		return false
	}
	storetest.WantCode(t, err, api.CodeVersionMismatch)
	var e *api.Error
	if !errors.As(err, &e) {
		return true
	}
	content, _ := e.Facts["value"].(json.RawMessage)
	if e.Facts["version"] != at || (at != 0) != (string(content) == `{"n":1}`) || at == 0 && e.Facts["value"] != nil {
		t.Errorf("the refusal has %v, want version %d", e.Facts, at)
	}
	return true
}

// V1: versions of a name only rise, also after it was deleted.
func TestV1_VersionsNeverRepeat(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		v, name, last := NewValues(db), named(t, "a"), int64(0)
		for round := range 60 {
			version := mustPut(t, v, name, "1", 0)
			if version <= last || version > api.MaxNumber {
				t.Errorf("version %d after %d", version, last)
			}
			last = version
			if round%3 == 1 {
				storetest.Must(t, v.Delete(t.Context(), name, api.Match{}))
			}
		}
		// Several in one script have versions of their own.
		versions := make([]int64, 50)
		storetest.AtOnce(t, len(versions), func(ctx context.Context, i int) error {
			var err error
			versions[i], _, err = v.Put(ctx, name, json.RawMessage("2"), 0, api.Match{})
			return err
		})
		seen := map[int64]bool{}
		for _, version := range versions {
			if seen[version] || version <= last {
				t.Errorf("version %d twice, or not after %d", version, last)
			}
			seen[version] = true
		}
	})
}

// V1: a value that is deleted and put again in one script has another version.
func TestV1_VersionsInOneScript(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		name := named(t, "a")
		p := string(keysFor(kindValues, name))
		keys, args := []string{p + "run:one", p + "names"}, []any{1, 60_000, groupNames, 60_000}
		for range 8 {
			keys = append(keys, p+"v:"+name, p+"v:"+name)
			args = append(args, "put", name, "absent", "", "1", "delete", name, "", "", "")
		}
		answers, err := db.List(t.Context(), redisdb.Write, redisdb.MustScript(scripts, "lua/values_run.lua").Cmd(t.Context(), keys, args...))
		storetest.Must(t, err)
		last := ""
		for i := 1; i < len(answers); i += 2 {
			version, _, _ := strings.Cut(strings.TrimPrefix(redisdb.TextAt(answers, i), "1,"), ",")
			if len(version) != 16 || version <= last || redisdb.TextAt(answers, i+1) != "1" {
				t.Errorf("%v after version %q", answers[i:i+2], last)
			}
			last = version
		}
		if len(answers) != 17 || db.Client().Exists(t.Context(), p+"v:"+name).Val() != 0 {
			t.Errorf("%d answers", len(answers))
		}
	})
}

// V1: versions rise after Redis has lost everything.
func TestV1_VersionsAfterALoss(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	v, name := NewValues(db), named(t, "a")
	before := mustPut(t, v, name, "1", 0)
	storetest.Must(t, db.Client().FlushAll(t.Context()).Err())
	if after := mustPut(t, v, name, "1", 0); after <= before {
		t.Errorf("version %d after %d", after, before)
	}
}

// V1: a value is gone after its lifetime, and one that was put again has the new lifetime.
func TestV1_Lifetimes(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		v, brief, kept := NewValues(db), named(t, "brief"), named(t, "kept")
		mustPut(t, v, brief, "1", 50*time.Millisecond)
		mustPut(t, v, kept, "1", 50*time.Millisecond)
		mustPut(t, v, kept, "2", 0)
		storetest.Eventually(t, soon, "the value is gone", func() bool {
			_, err := v.Get(t.Context(), brief)
			return api.CodeOf(err) == api.CodeNotFound
		})
		got, err := v.Get(t.Context(), kept)
		storetest.Must(t, err)
		if string(got.Value) != "2" {
			t.Errorf("kept: %s", got.Value)
		}
	})
}

// V1: whatever of JSON comes in comes out.
func TestV1_AnyJSON(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		v, name := NewValues(db), named(t, "a")
		for _, content := range []string{`0`, `""`, `"a:b,c;d"`, `false`, `[]`, `{"a":[1,2,{"b":null}]}`, `"` + strings.Repeat("ü", 8000) + `"`, "\"\u2028\"", `1e400`, `"\n\u0000"`} {
			version := mustPut(t, v, name, content, 0)
			got, err := v.Get(t.Context(), name)
			storetest.Must(t, err)
			if string(got.Value) != content || got.Version != version {
				t.Errorf("%.40s came back as %.40s", content, got.Value)
			}
			_, _, err = v.Put(t.Context(), name, json.RawMessage("1"), 0, api.Match{Absent: true})
			var e *api.Error
			if !errors.As(err, &e) || fmt.Sprintf("%s", e.Facts["value"]) != content {
				t.Errorf("a refusal has %v instead of %.40s", err, content)
			}
		}
	})
}

// V1: there are at most some million names; those that are gone make room.
func TestV1_NamesAreBounded(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	v := NewValues(db)
	var names []string // all of one group
	for i := 0; len(names) <= groupNames+2; i++ {
		if name := fmt.Sprint("n", i); groupOf(name) == 7 {
			names = append(names, name)
		}
	}
	put := func(ctx context.Context, name string, ttl time.Duration) error {
		_, _, err := v.Put(ctx, name, json.RawMessage("1"), ttl, api.Match{})
		return err
	}
	storetest.AtOnce(t, 64, func(ctx context.Context, i int) error {
		for n := i; n < groupNames-1; n += 64 {
			if err := put(ctx, names[n], 0); err != nil {
				return err
			}
		}
		return nil
	})
	storetest.Must(t, put(t.Context(), names[groupNames-1], 20*time.Millisecond))
	more := names[groupNames]
	storetest.Eventually(t, soon, "the name that expired makes room", func() bool { return put(t.Context(), more, 0) == nil })
	storetest.WantCode(t, put(t.Context(), names[groupNames+1], 0), api.CodeTooManyNames)
	storetest.Must(t, put(t.Context(), names[0], 0)) // one that is there
	storetest.Must(t, v.Delete(t.Context(), names[0], api.Match{}))
	storetest.Must(t, put(t.Context(), names[groupNames+1], 0))
	storetest.WantCode(t, put(t.Context(), names[0], 0), api.CodeTooManyNames)
}

// V1: a wait is woken by a change, a deletion, the making of a value, and the end of its lifetime.
func TestV1_AWaitIsWoken(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		v := NewValues(db)
		for what, change := range map[string]func(name string) string{
			"changed": func(name string) string { mustPut(t, v, name, `"new"`, 0); return `"new"` },
			"deleted": func(name string) string { storetest.Must(t, v.Delete(t.Context(), name, api.Match{})); return "" },
			"made":    func(name string) string { mustPut(t, v, name, `"new"`, 0); return `"new"` },
			"expired": func(string) string { return "" },
		} {
			name, version, ttl := named(t, what), int64(0), time.Duration(0)
			if what == "expired" {
				ttl = 100 * time.Millisecond
			}
			if what != "made" {
				version = mustPut(t, v, name, `"old"`, ttl)
			}
			type answer struct {
				value *api.Value
				err   error
			}
			got := make(chan answer, 1)
			go func() {
				value, err := v.Wait(t.Context(), name, version)
				got <- answer{value, err}
			}()
			if what != "expired" {
				storetest.Eventually(t, soon, "it waits", func() bool { return v.changes.Waiting(channel(name)) == 1 })
			}
			want, a := change(name), <-got
			if want == "" {
				storetest.WantCode(t, a.err, api.CodeNotFound)
			} else if a.err != nil || string(a.value.Value) != want {
				t.Errorf("%s: %v, %v", what, a.value, a.err)
			}
		}
		// A caller with an old version does not wait, nor does one of a value that is not there.
		name := named(t, "old")
		version := mustPut(t, v, name, "1", 0)
		if value, err := v.Wait(t.Context(), name, version-1); err != nil || value.Version != version {
			t.Errorf("%v, %v", value, err)
		}
		_, err := v.Wait(t.Context(), named(t, "none"), 5)
		storetest.WantCode(t, err, api.CodeNotFound)
		// The end of a wait answers what is there.
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if value, err := v.Wait(ctx, name, version); err != nil || value.Version != version {
			t.Errorf("after the wait: %v, %v", value, err)
		}
	})
}

// V1: after wait_ms the answer is the present value, also if the connection that tells of changes has become silent.
func TestV1_TheEndOfAWaitLooksOnceMore(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	direct, name := NewValues(storetest.Open(t, server.URL())), named(t, "a")
	version := mustPut(t, direct, name, `"old"`, 0)
	proxy, url := storetest.ProxyTo(t, server.URL())
	proxy.OnAnswer(func(c *storetest.ProxyConn, b []byte) storetest.Fate {
		if bytes.Contains(b, []byte("message")) {
			c.Swallow() // this connection tells of nothing
		}
		return storetest.Pass
	})
	v := NewValues(storetest.Open(t, url))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, looks := make(chan string, 1), storetest.Calls(t, server.Client(), "get")
	go func() {
		value, err := v.Wait(ctx, name, version)
		if err != nil {
			t.Error(err)
			value = &api.Value{}
		}
		got <- string(value.Value)
	}()
	storetest.Eventually(t, soon, "it has looked before and after it listens", func() bool {
		return storetest.Calls(t, server.Client(), "get") >= looks+2
	})
	mustPut(t, direct, name, `"new"`, 0)
	time.AfterFunc(recent+100*time.Millisecond, cancel) // the silence is noticed later
	if value := <-got; value != `"new"` {
		t.Errorf("%s after the wait", value)
	}
}

// V1: a call whose answer was lost is answered as it was done, also if Redis is full by the time that it is sent again.
func TestV1_ARepeatAtAFullRedis(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db := storetest.Open(t, server.URL())
	var fills atomic.Bool
	at := storetest.Faulty(t, db, func(what string, answered bool) error {
		if what != "values_run" || !answered || !fills.Load() {
			return nil
		}
		if err := db.Client().ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
			return err
		}
		return storetest.ErrTwice
	})
	v, c, name := NewValues(at), NewCounters(at), named(t, "a")
	mustMake(t, c, name, 0, 10)
	for what, call := range map[string]func() error{
		"a put": func() error {
			_, created, err := v.Put(t.Context(), name, json.RawMessage("1"), 0, api.Match{})
			if err == nil && !created {
				t.Error("not created")
			}
			return err
		},
		"an add": func() error { _, err := c.add(t.Context(), name, 1); return err },
	} {
		storetest.Must(t, db.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
		fills.Store(true)
		if err := call(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		fills.Store(false)
	}
	mustBe(t, c, name, 1)
}

// V1: a wait asks Redis when it begins, and then no more until something happens.
func TestV1_AWaitDoesNotPoll(t *testing.T) {
	t.Parallel()
	db, reads := counting(t, storetest.Open(t, storetest.Redis(t).URL()), "get")
	v, name := NewValues(db), named(t, "a")
	version := mustPut(t, v, name, "1", 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := v.Wait(ctx, name, version)
	storetest.Must(t, err)
	if n := reads.Load(); n > 2 { // before and after it listens
		t.Errorf("%d reads in a wait of a second", n)
	}
}

// V1: a Redis without memory takes deletions, and refuses what needs room: because fanfare has seen that it is full, and
// by itself before that.
func TestV1_AFullRedis(t *testing.T) {
	t.Parallel()
	for _, seen := range []bool{true, false} {
		server := storetest.Redis(t)
		db := storetest.Open(t, server.URL())
		v, c, name := NewValues(db), NewCounters(db), named(t, "a")
		mustPut(t, v, name, "1", 0)
		mustMake(t, c, name, 0, 10)
		at := db
		if !seen { // nothing reads this one's memory
			at = storetest.Faulty(t, db, func(string, bool) error { return nil })
			v, c = NewValues(at), NewCounters(at)
		}
		storetest.Must(t, db.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
		storetest.Eventually(t, soon, "fanfare sees it", func() bool { return db.Overloaded() != nil })
		if (at.Overloaded() != nil) != seen {
			t.Errorf("seen: %v", !seen)
		}
		_, _, err := v.Put(t.Context(), name, json.RawMessage("2"), 0, api.Match{})
		storetest.WantCode(t, err, api.CodeOverloaded)
		_, err = c.add(t.Context(), name, 1)
		storetest.WantCode(t, err, api.CodeOverloaded)
		mustBe(t, c, name, 0)
		storetest.Must(t, v.Delete(t.Context(), name, api.Match{}))
		storetest.Must(t, c.Delete(t.Context(), name))
		_, err = v.Get(t.Context(), name)
		storetest.WantCode(t, err, api.CodeNotFound)
	}
}
