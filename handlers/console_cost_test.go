package handlers_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/series"
	"fanfare/store/storetest"
)

// N7: a page costs Redis what the JSON answers cost that it shows, and one command for its session.
func TestN7_WhatPagesCost(t *testing.T) {
	t.Parallel()
	var commands atomic.Int64
	name := func(c redis.Cmder) string {
		if c.Name() == "time" { // the process looks at Redis' clock now and then
			return ""
		}
		return c.Name()
	}
	db := storetest.FaultyBy(t, storetest.Open(t, storetest.Redis(t).URL()), name, func(_ string, answered bool) error {
		if !answered {
			commands.Add(1)
		}
		return nil
	})
	w := setupOn(t, db, withConsole(db), func(o *handlers.Options) {
		o.Series = series.New(db, series.Options{Minute: 100_000 * time.Hour}) // which does not end during the test
	})
	w.workSales()
	w.put("/v1/sales/spring", saleBody(`[{"sku":"shoe","stock":4}]`, `"hold_ms":60000`))
	event := w.post("/v1/events", anEvent).member(t, "id")
	job := w.enqueue(t, `{"type":"mail"}`)
	w.do(put("/v1/webhooks/shop", `{"url":"https://shop.example.com/","types":["event.done"]}`))
	w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"]}`).member(t, "epoch")
	mustDieAs(t, w.notifications, "photo.shared", "shop/production", "BadTopic")
	admin := w.mustKey(api.ScopeAdmin)
	bearer, cookie := "Authorization: Bearer "+admin, w.login(admin)
	cost := func(path, header string) int64 {
		t.Helper()
		least := int64(1 << 40)
		for range 4 { // the first fills caches, and others may do something meanwhile
			before := commands.Load()
			if a := w.page(path, header); a.status != 200 {
				t.Fatalf("%s: %d %s", path, a.status, a.body)
			}
			least = min(least, commands.Load()-before)
		}
		return least
	}
	for page, routes := range map[string][]string{
		"":                   {"/v1/stats", "/readyz", "/v1/apps", "/v1/servers", "/v1/stats/series"},
		"history":            {"/v1/stats/series?minutes=1440"},
		"events":             {"/v1/events"},
		"events?state=done":  {"/v1/events?state=done"},
		"events/" + event:    {"/v1/events/" + event},
		"users":              {},
		"users/bob":          {"/v1/users/bob/notification-settings", "/v1/users/bob/badge", "/v1/users/bob/chats"},
		"chats":              {},
		"chats/team":         {"/v1/chats/team", "/v1/chats/team/members"},
		"send":               {},
		"dead-letters":       {"/v1/dead-letters/groups", "/v1/dead-letters"},
		"dead-letters?app=x": {"/v1/dead-letters?app=x"},
		"jobs":               {"/v1/queues"},
		"jobs/" + job:        {"/v1/jobs/" + job},
		"queues/q":           {"/v1/queues/q", "/v1/queues/q/series"},
		"queues/q/pause":     {"/v1/queues/q"},
		"webhooks":           {"/v1/webhooks", "/v1/webhooks/shop"},
		"webhooks/shop":      {"/v1/webhooks/shop"},
		"webhooks/shop/off":  {"/v1/webhooks/shop"},
		"sales":              {"/v1/sales"},
		"sales/spring":       {"/v1/sales/spring"},
		"apps":               {"/v1/apps"},
		"servers":            {"/v1/servers"},
		"keys":               {"/v1/keys"},
		"about":              {"/v1/about"},

		"dead-letters/all?action=retry":      {"/v1/dead-letters?limit=1", "/v1/dead-letters/groups"},
		"events/" + event + "/users/bob":     {"/v1/events/" + event + "/users/bob"},
		"dead-letters/ask?action=retry&id=a": {},
		"jobs/" + job + "/cancel":            {"/v1/jobs/" + job},
	} {
		want := int64(1)
		for _, route := range routes {
			want += cost(route, bearer)
		}
		if got := cost("/console/"+page, cookie); got != want {
			t.Errorf("/console/%s costs %d commands, want %d", page, got, want)
		}
	}
	if n := cost("/v1/stats/series?minutes=1440", bearer); n != 0 {
		t.Errorf("minutes that were read are read again: %d commands", n)
	}
}
