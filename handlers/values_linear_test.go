package handlers_test

import (
	"encoding/json"
	"fmt"
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
	what    string // put, cas, get, delete, add
	version int64  // the condition of cas; 0: there must be none
	content int64  // of put and cas, or what is added
}

// nameAnswer is the answer.
type nameAnswer struct {
	status           int
	version, content int64
}

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
	switch c.what {
	case "get":
		if s.version == 0 {
			return a.status == 404, s
		}
		return a == nameAnswer{200, s.version, s.content}, s
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
			return a == nameAnswer{412, s.version, s.content}, s
		}
	}
	made := s.version == 0
	s.version, s.content = a.version, c.content
	if a.version <= s.last || made != (a.status == 201) {
		return false, s
	}
	s.last = a.version
	return true, s
}

// call makes a call.
func (c nameCall) call(w *world, path string) (a nameAnswer) {
	var got answer
	switch c.what {
	case "get":
		got = w.get(path)
	case "add":
		got = w.post(path+"/add", fmt.Sprintf(`{"delta":%d}`, c.content))
	case "delete":
		got = w.do(call{method: "DELETE", path: path})
	default:
		one := put(path, fmt.Sprintf(`{"value":%d}`, c.content))
		if c.what == "cas" && c.version == 0 {
			one = one.with("If-None-Match: *")
		} else if c.what == "cas" {
			one = one.with(fmt.Sprintf(`If-Match: "%d"`, c.version))
		}
		got = w.do(one)
	}
	var body struct{ Version, Value int64 }
	_ = json.Unmarshal([]byte(got.body), &body) // 204 has none
	a = nameAnswer{status: got.status}
	switch got.status {
	case 200, 201, 412:
		a.version, a.content = body.Version, body.Value
	}
	if c.what == "put" || c.what == "cas" && got.status != 412 {
		a.content = 0
	}
	return a
}

// V1, V2: histories of concurrent clients are those of a value, and of a counter, that serves one call at a time.
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
				in := nameCall{what: []string{"put", "cas", "cas", "get", "delete"}[r.IntN(5)], content: r.Int64N(100), version: seen}
				if counter {
					in = nameCall{what: "add", content: 1 - 2*r.Int64N(2)}
				}
				from := time.Since(began)
				out := in.call(w, path)
				if out.version != 0 || out.status == 412 {
					seen = out.version
				}
				mu.Lock()
				ops = append(ops, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: int64(from), Return: int64(time.Since(began))})
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
			if op.Output.(nameAnswer).status == 200 {
				sum += op.Input.(nameCall).content
			}
		}
		if c.Value != sum {
			t.Errorf("seed %d: the counter is %d, and %d was added", seed, c.Value, sum)
		}
	}
}
