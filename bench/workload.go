package main

import (
	"context"
	"fmt"
	"net/http"
)

// workload is what a profile is taken of: one round of it does so many things.
type workload struct {
	redis, server *process
	run           func(context.Context) (float64, error)
	close         func()
}

// profiles names the workloads.
const profiles = "one, batch, ten, wide, fans (see push), accept, event, reserve, refuse, chat or recent"

// workload starts what a name stands for.
func (w *world) workload(ctx context.Context, name string, env ...string) (*workload, error) {
	for _, p := range waysToPost(devices, followers) {
		if p.name == name {
			return w.pushing(ctx, p, env...)
		}
	}
	if name == "recent" {
		return w.reading(ctx, env...)
	}
	if name == "event" {
		return w.readingEvents(ctx, env...)
	}
	open, ok := map[string]func(addr string) (*load, error){
		"accept": func(addr string) (*load, error) {
			return fixed(addr, http.StatusAccepted, request(http.MethodPost, "/v1/events", []byte(greeting))), nil
		},
		"reserve": func(addr string) (*load, error) {
			return buying("/v1/sales/open/reservations", http.StatusCreated, addr), putSales(addr, sale{"open", plenty, 1})
		},
		"refuse": func(addr string) (*load, error) {
			return buying("/v1/sales/empty/reservations", http.StatusConflict, addr), putSales(addr, sale{"empty", 0, 1})
		},
		"chat": func(addr string) (*load, error) {
			return sending(addr, connections), each(ctx, addr, connections, func(c *caller, i int) error { return putChat(c, fmt.Sprintf("chat-%d", i), 2) })
		},
	}[name]
	if !ok {
		return nil, fmt.Errorf("there is no profile of %q, only of %s", name, profiles)
	}
	store, err := w.redis()
	if err != nil {
		return nil, err
	}
	server, err := w.fanfare(ctx, store, append(env, "FANFARE_ROLES=api")...)
	if err != nil {
		return nil, err
	}
	l, err := open(server.addr)
	return w.loading(store, server, l), err
}

// loading is the workload of a load.
func (w *world) loading(store, server *process, l *load) *workload {
	return &workload{store, server, func(ctx context.Context) (float64, error) {
		got, err := l.run(ctx, w.seconds)
		return got["count"], err
	}, func() {}}
}

// reading is the workload of recent contacts on SQLite.
func (w *world) reading(ctx context.Context, env ...string) (*workload, error) {
	store, err := w.redis()
	if err != nil {
		return nil, err
	}
	file := store.cmd.Dir + "/fanfare.db"
	server, err := w.contactsOn(ctx, store, "sqlite:"+file, "sqlite", file, env...)
	if err != nil {
		return nil, err
	}
	return w.loading(store, server, asking(server.addr)), nil
}

// readingEvents is the workload of reports of events that are done.
func (w *world) readingEvents(ctx context.Context, env ...string) (*workload, error) {
	store, err := w.redis()
	if err != nil {
		return nil, err
	}
	server, err := w.fanfare(ctx, store, env...)
	if err != nil {
		return nil, err
	}
	ids, err := postEvents(ctx, server.addr, 1000)
	return w.loading(store, server, getting(server.addr, "/v1/events/", ids)), err
}

// pushing is the workload of a way to post.
func (w *world) pushing(ctx context.Context, p posts, env ...string) (*workload, error) {
	s, err := w.stage(ctx, devices, followers, env...)
	if err != nil {
		s.close()
		return nil, err
	}
	side := s.delivering(p, s.server)
	return &workload{s.redis, s.server, func(ctx context.Context) (float64, error) {
		before := s.taken.Load()
		_, err := side.run(ctx, w.seconds)
		return float64(s.taken.Load() - before), err
	}, s.close}, nil
}
