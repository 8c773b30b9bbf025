package main

import (
	"fmt"
	"net/http"
	"path/filepath"
)

// counters compares adds to one counter with a bare handler and one script.
func counters(w *world) sample {
	s := w.stage(plan{bare: true, env: apiRole})
	s.each(1, func(c *caller, _ int) {
		c.call(http.MethodPut, "/v1/counters/one", `{"value":0,"min":0,"max":9007199254740991}`, http.StatusCreated)
	})
	add := request(http.MethodPost, "/v1/counters/one/add", `{"delta":1}`)
	return w.turns(s.flood("add", s.server, http.StatusOK, add), s.flood("bare", s.bare, http.StatusOK, add))
}

// locks compares acquiring and releasing one of 64 locks with bare handlers over bsm/redislock and over redsync, with a fence
// for each hold. A caller has a lock for itself.
func locks(w *world) sample {
	s := w.stage(plan{env: apiRole})
	peer := filepath.Join(w.dir, "locks")
	w.build("bench/locks", peer)
	bare := func(library string) *process {
		addr := w.freeAddr()
		return w.serve(library, addr, nil, peer, library, addr, s.redis.Options().Addr)
	}
	holding := func(name string, to *process) *side {
		one := s.flood(name, to, http.StatusOK)
		one.call = func(c *caller, n int) {
			path := fmt.Sprintf("/v1/locks/lock-%d", n%connections)
			c.call(http.MethodPost, path+"/acquire", `{"lease_ms":30000}`, http.StatusOK)
			c.call(http.MethodPost, path+"/release", `{"token":"`+c.field("token")+`"}`, http.StatusOK)
		}
		return one
	}
	return w.turns(holding("hold", s.server), holding("redislock", bare("redislock")), holding("redsync", bare("redsync")))
}
