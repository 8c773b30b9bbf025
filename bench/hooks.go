package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
)

const (
	// hookRate is how many events a second end for the row about one webhook, in batches of hookBatch, for hookTime.
	hookRate  = 5000
	hookBatch = 100
	hookTime  = 10 * time.Second
)

// hookNets lets fanfare connect to receivers in this process.
var hookNets = []string{"FANFARE_WEBHOOK_NETS=127.0.0.0/8"}

// receiver is the receiver of a webhook, which takes all facts.
type receiver struct {
	url   string
	facts atomic.Int64

	mu   sync.Mutex
	lags []time.Duration // from when facts happened to their arrival; nil: nobody wants to know
}

// receiver starts one.
func (w *world) receiver() *receiver {
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, hr *http.Request) {
		if text, err := io.ReadAll(hr.Body); err == nil { // else the process was killed
			r.take(text)
		}
	}))
	w.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// take counts the facts of a request, and reads them only if somebody wants to know their lags: this process shares the processors.
func (r *receiver) take(text []byte) {
	at := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lags != nil {
		var body struct{ Facts []api.Fact }
		must(json.Unmarshal(text, &body))
		for _, f := range body.Facts {
			r.lags = append(r.lags, at.Sub(f.At.Time))
		}
	}
	r.facts.Add(int64(bytes.Count(text, []byte(`{"id":"`))))
}

// awaitFacts waits until so many facts have come in all.
func (w *world) awaitFacts(r *receiver, all int64) {
	eventually(w.ctx, "all facts", func() bool { return r.facts.Load() >= all })
}

// hung is the URL of a receiver that accepts requests and never answers.
func (w *world) hung() string {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	w.Cleanup(func() { close(over); server.Close() })
	return server.URL
}

// putHook sends the facts about events that are over to a URL, and waits until none is missing.
func (s *stage) putHook(id, url string, status int) {
	var made api.PutWebhook
	s.each(1, func(c *caller, _ int) {
		c.call(http.MethodPut, "/v1/webhooks/"+id, fmt.Sprintf(`{"url":%q,"types":["event.done"]}`, url), status)
		must(json.Unmarshal(c.body, &made))
	})
	s.pause(time.Until(made.Since.Time))
}

// hooked is a side of events to one device each, about which a webhook is told. The next round begins when it knows of all.
func (s *stage) hooked(name string, r *receiver) *side {
	one := s.delivering(name, connections, 1, func(n int) []byte { return post(n, 1, s.users) }, s.server)
	one.run = func(d time.Duration) sample {
		before := r.facts.Load()
		found := one.load(s.ctx, d)
		s.awaitFacts(r, before+int64(found["count"]))
		return found
	}
	return one
}

// webhooks measures how fast facts come to a webhook, and how late they are while another one's receiver is away. The events are for
// users without devices, and are over at once.
func webhooks(w *world) sample {
	r := w.receiver()
	s := w.stage(plan{env: hookNets})
	s.putHook("shop", r.url, http.StatusCreated)
	found := w.turns(s.ending("much", r))
	s.putHook("away", "http://"+w.freeAddr()+"/", http.StatusCreated)
	maps.Copy(found, w.turns(s.lagging("refused", r)))
	s.putHook("away", w.hung(), http.StatusOK)
	maps.Copy(found, w.turns(s.lagging("hung", r)))
	return found
}

// ending is a side of events that end at a fixed rate for a fixed time. The lag is how long after the last answer the last fact comes.
func (s *stage) ending(name string, r *receiver) *side {
	load := s.flood(name, s.server, http.StatusAccepted, batch("nobody-%d", 0, hookBatch, devices))
	load.callers, load.each, load.rate = 16, hookBatch, hookRate/hookBatch
	d := hookTime
	if s.quick {
		d = s.seconds
	}
	return &side{name: name, stage: s, servers: []*process{s.server}, run: func(time.Duration) sample {
		before, began := r.facts.Load(), time.Now()
		found := load.load(s.ctx, d)
		answered := time.Now()
		s.awaitFacts(r, before+int64(found["count"]))
		return sample{"count": found["count"], "rate": found["count"] / time.Since(began).Seconds(), "lag": max(float64(time.Since(answered))/1e6, 0.01)}
	}}
}

// lagging is a side of single events at even intervals. The figure is how long after the end of an event its fact comes.
func (s *stage) lagging(name string, r *receiver) *side {
	load := s.flood(name, s.server, http.StatusAccepted, toAudience(`{"users":["nobody"]}`))
	load.callers, load.rate = 8, pace
	return &side{name: name, run: func(d time.Duration) sample {
		r.mu.Lock()
		r.lags = []time.Duration{}
		r.mu.Unlock()
		before := r.facts.Load()
		found := load.load(s.ctx, 2*d)
		s.awaitFacts(r, before+int64(found["count"]))
		r.mu.Lock()
		defer r.mu.Unlock()
		all := slices.Sorted(slices.Values(r.lags))
		r.lags = nil
		return sample{"p50": max(quantile(all, .5), 0.01), "p99": max(quantile(all, .99), 0.01)}
	}}
}
