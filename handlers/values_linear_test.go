package handlers_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"

	"github.com/anishathalye/porcupine"
)

// The size of a history of values and counters.
const (
	namesClients = 6
	namesCalls   = 30 // of each client
	namesSeeds   = 30
)

// nameCall is one call of a client, for the value or for the counter of the history.
type nameCall struct {
	what    string // put, cas, get, delete, cad (delete if it is this version), add, sat (add, and stop at a bound)
	version int64  // the condition of cas and cad; 0 of cas: there must be none
	content int64  // of put and cas, or what is added
}

// nameAnswer is the answer.
type nameAnswer struct {
	status           int
	version, content int64
	applied          int64 // by sat
	lost             bool  // the client did not get the answer, and did not try again
}

// unsure is a version that nobody has seen yet, of a put whose answer was lost.
const unsure = -1

// nameState is a value, or a counter between 0 and 3.
type nameState struct {
	version, content, last int64
	counter                bool
}

// namesModel is a value or a counter that is served sequentially. A refusal for a bound may be as old as V2 says, so
// that it is taken at any time.
func namesModel(counter bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return nameState{counter: counter} },
		Step: func(state, in, out any) (bool, any) {
			return state.(nameState).step(in.(nameCall), out.(nameAnswer))
		},
	}
}

func (s nameState) step(c nameCall, a nameAnswer) (bool, nameState) {
	if a.lost {
		return true, s.lose(c)
	}
	if s.version == unsure && a.version > s.last && (c.what == "get" || a.status == 412) { // now somebody sees it
		s.version, s.last = a.version, a.version
	}
	switch c.what {
	case "get":
		if s.version == 0 {
			return a.status == 404, s
		}
		return a == nameAnswer{status: 200, version: s.version, content: s.content}, s
	case "sat":
		to := min(max(s.content+c.content, 0), 3)
		by := to - s.content
		s.content = to
		return a == nameAnswer{status: 200, content: to, applied: by}, s
	case "add":
		to := s.content + c.content
		if to < 0 || to > 3 || a.status == 409 {
			return a.status == 409, s
		}
		s.content = to
		return a == nameAnswer{status: 200, content: to}, s
	case "delete":
		s.version, s.content = 0, 0
		return a.status == 204, s
	case "cas":
		if s.version != c.version {
			return a == nameAnswer{status: 412, version: s.version, content: s.content}, s
		}
	case "cad":
		if s.version != c.version {
			return a == nameAnswer{status: 412, version: s.version, content: s.content}, s
		}
		s.version, s.content = 0, 0
		return a.status == 204, s
	}
	made := s.version == 0
	s.version, s.content = a.version, c.content
	if a.version <= s.last || made != (a.status == 201) {
		return false, s
	}
	s.last = a.version
	return true, s
}

// lose is what a call does whose answer was lost. A condition names a version that a client has seen, so that it is none
// that nobody has seen.
func (s nameState) lose(c nameCall) nameState {
	if (c.what == "cas" || c.what == "cad") && s.version != c.version {
		return s
	}
	switch c.what {
	case "put", "cas":
		s.version, s.content = unsure, c.content
	case "delete", "cad":
		s.version, s.content = 0, 0
	}
	return s
}

// call makes a call, twice under an Idempotency-Key if it is an add and its first answer is lost.
func (c nameCall) call(w *world, path string, again bool) (a nameAnswer) {
	var got answer
	switch c.what {
	case "get":
		got = w.get(path)
	case "add", "sat":
		body, headers := fmt.Sprintf(`{"delta":%d,"saturate":%v}`, c.content, c.what == "sat"), []string{}
		if again { // the first answer is lost, and the second one is the same
			headers = append(headers, fmt.Sprint("Idempotency-Key: ", rand.Uint64()))
			w.post(path+"/add", body, headers...)
		}
		got = w.post(path+"/add", body, headers...)
	case "delete":
		got = w.do(call{method: "DELETE", path: path})
	case "cad":
		got = w.do(call{method: "DELETE", path: path}.with(fmt.Sprintf(`If-Match: "%d"`, c.version)))
	default:
		one := put(path, fmt.Sprintf(`{"value":%d}`, c.content))
		if c.what == "cas" && c.version == 0 {
			one = one.with("If-None-Match: *")
		} else if c.what == "cas" {
			one = one.with(fmt.Sprintf(`If-Match: "%d"`, c.version))
		}
		got = w.do(one)
	}
	var body struct{ Version, Value, Applied int64 }
	_ = json.Unmarshal([]byte(got.body), &body) // 204 has none
	a = nameAnswer{status: got.status}
	switch got.status {
	case 200, 201, 412:
		a.version, a.content = body.Version, body.Value
		if c.what == "sat" {
			a.applied = body.Applied
		}
	}
	if c.what == "put" || c.what == "cas" && got.status != 412 {
		a.content = 0
	}
	return a
}

// V1, V2: histories of concurrent clients, some of which lose answers, are those of a value, and of a counter, that serves one call at a time.
func TestV1_HistoriesAreLinear(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		for seed := range uint64(storetest.Sized(namesSeeds, 6)) {
			for _, counter := range []bool{false, true} {
				history(t, w, seed, counter)
			}
		}
	})
}

// history lets clients make calls at once, and checks what they saw.
func history(t *testing.T, w *world, seed uint64, counter bool) {
	t.Helper()
	path, began := fmt.Sprintf("/v1/values/h%d", seed), time.Now()
	if counter {
		path = fmt.Sprintf("/v1/counters/h%d", seed)
		w.put(path, `{"value":0,"min":0,"max":3}`)
	}
	var mu sync.Mutex
	var ops []porcupine.Operation
	var all sync.WaitGroup
	for client := range namesClients {
		all.Go(func() {
			r, seen := rand.New(rand.NewPCG(seed, uint64(client))), int64(0)
			for range namesCalls {
				in := nameCall{what: []string{"put", "cas", "cas", "get", "get", "delete", "cad"}[r.IntN(7)], content: r.Int64N(100), version: seen}
				if !counter && in.what == "cad" && seen == 0 {
					in.what = "delete" // there is no condition yet
				}
				if counter {
					in = nameCall{what: []string{"add", "sat"}[r.IntN(2)], content: (1 + r.Int64N(2)) * (1 - 2*r.Int64N(2))}
				}
				from := time.Since(began)
				out := in.call(w, path, r.IntN(4) == 0)
				to := time.Since(began)
				if !counter && r.IntN(25) == 0 {
					out, to = nameAnswer{lost: true}, math.MaxInt64
				} else if out.version != 0 || out.status == 412 {
					seen = out.version
				}
				mu.Lock()
				ops = append(ops, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: int64(from), Return: int64(to)})
				mu.Unlock()
			}
		})
	}
	all.Wait()
	switch porcupine.CheckOperationsTimeout(namesModel(counter), ops, time.Minute) {
	case porcupine.Illegal:
		t.Errorf("seed %d, counter %v: no order of the calls explains %+v", seed, counter, ops)
	case porcupine.Unknown:
		t.Errorf("seed %d: not decided in a minute", seed)
	}
	if counter {
		var c api.Counter
		storetest.Must(t, json.Unmarshal([]byte(w.get(path).body), &c))
		sum := int64(0)
		for _, op := range ops {
			switch c, a := op.Input.(nameCall), op.Output.(nameAnswer); {
			case c.what == "sat":
				sum += a.applied
			case a.status == 200:
				sum += c.content
			}
		}
		if c.Value != sum {
			t.Errorf("seed %d: the counter is %d, and %d was added", seed, c.Value, sum)
		}
	}
}
