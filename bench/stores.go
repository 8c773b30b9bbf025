package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/chat"
	"fanfare/store/redisdb"
)

const (
	// customers is the number of users who buy, so that none of them reaches the limit of tries.
	customers = 50_000
	// plenty is more stock than any run sells.
	plenty = 1 << 40
	// senders is how many callers send to the single chat of chat-store.
	senders = 16
)

// apiRole is the setting of a process that only accepts and reads.
var apiRole = []string{"FANFARE_ROLES=api"}

// reservation is a body that reserves one unit.
func reservation(user string, n int) string {
	return fmt.Sprintf(`{"user":"%s-%d","lines":[{"sku":"s","quantity":1}]}`, user, n)
}

// buying is a side of reservations of one unit each.
func (s *stage) buying(name, path string, status int, to ...*process) *side {
	return &side{name: name, stage: s, servers: to, status: status, requests: made(customers, func(i int) []byte {
		return request(http.MethodPost, path+"/reservations", reservation("user", i))
	})}
}

// getting is a side of GETs of some paths.
func (s *stage) getting(name string, to *process, paths ...string) *side {
	return s.flood(name, to, http.StatusOK, made(len(paths), func(i int) []byte { return request(http.MethodGet, paths[i], "") })...)
}

// putSale makes a sale of one sku that is open for a day, with a limit for each user.
func (s *stage) putSale(id string, units int64, partitions int) {
	const form = `{"items":[{"sku":"s","stock":%d}],"starts_at":%q,"ends_at":%q,"per_user_limit":1000000,"partitions":%d}`
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	s.each(1, func(c *caller, _ int) {
		c.call(http.MethodPut, "/v1/sales/"+id, fmt.Sprintf(form, units, at(-time.Hour), at(24*time.Hour), partitions), http.StatusCreated)
	})
}

// sales compares reservations with a bare handler and one bounded decrement, and refusals
// after sold out with a bare handler without Redis.
func sales(w *world) sample {
	s := w.stage(plan{bare: true, env: apiRole})
	must(s.redis.Set(w.ctx, "bare:stock:open", plenty, 0).Err())
	s.putSale("open", plenty, 1)
	s.putSale("empty", 0, 1)
	const open, empty = "/v1/sales/open", "/v1/sales/empty"
	reserve, half := s.buying("reserve", open, http.StatusCreated, s.server), s.buying("half", open, http.StatusCreated, s.server)
	reserve.run = func(d time.Duration) sample {
		found := reserve.load(w.ctx, d)
		half.rate = found["rate"] / 2
		return found
	}
	return w.turns(reserve, half, s.buying("script", open, http.StatusCreated, s.bare),
		s.buying("refuse", empty, http.StatusConflict, s.server),
		s.buying("json", "/v1/sold-out/empty", http.StatusConflict, s.bare))
}

// saleProcesses compares three processes with the role api with a single one.
func saleProcesses(w *world) sample {
	s := w.stage(plan{env: apiRole})
	three := []*process{s.server, s.join(apiRole...), s.join(apiRole...)}
	s.putSale("one", plenty, 1)
	s.putSale("eight", plenty, 8)
	return w.turns(
		s.buying("once", "/v1/sales/one", http.StatusCreated, s.server),
		s.buying("whole", "/v1/sales/one", http.StatusCreated, three...),
		s.buying("split", "/v1/sales/eight", http.StatusCreated, three...))
}

// buyers lets n buyers reserve at once, each on its own connection, and as many be refused after
// everything is sold. A buyer that exceeds the limit of the process gets 503 and tries again at
// once.
func buyers(w *world, n int) []float64 {
	s := w.stage(plan{env: append(apiRole, "FANFARE_SALE_MAX_IN_FLIGHT=20000")})
	s.putSale("open", plenty, 1)
	s.putSale("empty", 0, 1)
	reserve := s.buying("reserve", "/v1/sales/open", http.StatusCreated, s.server)
	refuse := s.buying("refuse", "/v1/sales/empty", http.StatusConflict, s.server)
	for _, side := range []*side{reserve, refuse} {
		side.callers, side.refused = n, http.StatusServiceUnavailable
	}
	return w.turns(reserve, refuse).line("reserve rate", "reserve p50", "reserve p99", "reserve refused",
		"refuse rate", "refuse p50", "refuse p99", "refuse refused")
}

// orders measures a sale with n orders: how fast they are sold and on record, reading it, further
// reservations, and how long it takes to restore it after Redis lost everything.
func orders(w *world, n int) []float64 {
	s := w.stage(plan{env: []string{"FANFARE_SALE_LOCAL=off"}})
	s.putSale("open", plenty, 1)
	before, began := s.memory(), time.Now()
	const path = "/v1/sales/open/reservations"
	s.each(n, func(c *caller, i int) {
		c.call(http.MethodPost, path, reservation("buyer", i), http.StatusCreated)
		c.call(http.MethodPost, path+"/"+c.field("id")+"/confirm", "", http.StatusOK)
	})
	eventually(s.ctx, "all orders to be on record", func() bool {
		s.pause(50 * time.Millisecond) // each question takes processor time
		sales := s.stats().Sales
		return sales == nil || sales.WaitingOrders == 0
	})
	sold := float64(n) / time.Since(began).Seconds()
	bytes := max(s.memory()-before, 1) / float64(n)
	read, list := s.getting("read", s.server, "/v1/sales/open"), s.getting("list", s.server, "/v1/sales/open/orders")
	read.callers, list.callers = 1, 1
	m := w.turns(read, list, s.buying("reserve", "/v1/sales/open", http.StatusCreated, s.server))
	return []float64{sold, m["read p50"], m["list p50"], m["reserve rate"], bytes, s.lose().Seconds()}
}

// field is the value of a field of the last answer.
func (c *caller) field(name string) string {
	var answer map[string]any
	must(json.Unmarshal(c.body, &answer))
	text, _ := answer[name].(string)
	return text
}

// lose empties Redis and returns the time until the sale is restored.
func (s *stage) lose() time.Duration {
	must(s.redis.FlushAll(s.ctx).Err())
	began := time.Now()
	s.each(1, func(c *caller, _ int) {
		eventually(s.ctx, "the sale to be back", func() bool {
			err := c.send(request(http.MethodGet, "/v1/sales/open", ""), http.StatusOK)
			if err != nil && c.field("code") != "unavailable" { // unavailable: the sale is being restored from SQL
				must(err)
			}
			return err == nil
		})
	})
	return time.Since(began)
}

// message renders a message of a user to a chat, of about a hundred bytes.
func message(chat, sender string) []byte {
	const text = "A message of about a hundred bytes, as people write them when they have something to say to others."
	return request(http.MethodPost, "/v1/chats/"+chat+"/messages", `{"sender":"`+sender+`","text":"`+text+`"}`)
}

// putChat makes a chat. Its first member is the creator.
func (c *caller) putChat(id string, names []string) {
	members := got(json.Marshal(names))
	c.call(http.MethodPost, "/v1/chats", fmt.Sprintf(`{"id":%q,"creator":%q,"members":%s}`, id, names[0], members), http.StatusCreated)
}

// chats compares sends to 64 chats with a bare handler and one script.
func chats(w *world) sample {
	s := w.stage(plan{bare: true, env: apiRole})
	ids := names("chat-%d", 0, connections)
	s.each(len(ids), func(c *caller, i int) { c.putChat(ids[i], names("user-%d", 0, 2)) })
	messages := made(len(ids), func(i int) []byte { return message(ids[i], "user-0") })
	return w.turns(s.flood("chat", s.server, http.StatusCreated, messages...),
		s.flood("bare", s.bare, http.StatusCreated, messages...))
}

// members lets 64 callers send to one chat of n members.
func members(w *world, n int) []float64 {
	s := w.stage(plan{env: apiRole})
	s.each(1, func(c *caller, _ int) { c.putChat("team", names("user-%d", 0, n)) })
	return w.turns(s.flood("send", s.server, http.StatusCreated, message("team", "user-0"))).
		line("send rate", "send p50", "send p99")
}

//go:embed lua/lock_release.lua
var releaseText string

// chatStore compares sends through store/chat with the textbook's way: lock, INCR, ZADD, unlock.
// Both run in this process, without HTTP.
func chatStore(w *world) sample {
	store, users := w.redis(), names("user-%d", 0, senders)
	ours := chat.New(got(redisdb.Open(w.ctx, redisdb.Options{URL: store.URL()})), chat.Options{})
	_, _, err := ours.Create(w.ctx, &api.ChatRequest{ID: "chat", Creator: users[0], Members: users}, api.Idempotency{}, false)
	must(err)
	sending := func(name string, send func(ctx context.Context, sender int, text string) error) *side {
		return &side{name: name, callers: senders, call: func(_ *caller, n int) {
			sender := n % senders
			must(send(w.ctx, sender, strings.Repeat("x", 90)+fmt.Sprint(sender)))
		}}
	}
	return w.turns(
		sending("ours", func(ctx context.Context, sender int, text string) error {
			_, _, err := ours.Send(ctx, chat.Outgoing{Chat: "chat", Sender: users[sender], Text: text})
			return err
		}),
		sending("lock", sendByLock(redis.NewClient(&redis.Options{Addr: store.Addr(), PoolSize: senders}))))
}

// sendByLock sends under a lock with a random token. A lock that is taken is tried again after a
// millisecond, and it is released only by its owner.
func sendByLock(client *redis.Client) func(context.Context, int, string) error {
	release := redis.NewScript(releaseText)
	return func(ctx context.Context, sender int, text string) error {
		token := rand.Text()
		for !got(client.SetNX(ctx, "bare:lock", token, 10*time.Second).Result()) {
			time.Sleep(time.Millisecond)
		}
		id := got(client.Incr(ctx, "bare:ids").Result())
		return errors.Join(
			client.ZAdd(ctx, "bare:messages", redis.Z{Score: float64(id), Member: fmt.Sprintf("%d %d %s", id, sender, text)}).Err(),
			release.Run(ctx, client, []string{"bare:lock"}, token).Err())
	}
}

// reads compares reading an event and a sale with a bare handler that reads a hash of about the
// same size.
func reads(w *world) sample {
	s := w.stage(plan{bare: true})
	s.putSale("open", plenty, 1)
	must(s.redis.HSet(w.ctx, "bare:hash:event", map[string]any{
		"id": "00000000000000000000000000000000", "type": "greeting", "state": "done", "recipients": 1, "notifications": 1,
		"delivered": 1, "failed": 0, "expired": 0, "retrying": 0, "no_device": 0,
	}).Err())
	must(s.redis.HSet(w.ctx, "bare:hash:sale", map[string]any{
		"id": "open", "state": "open", "sku": "s", "total": plenty, "available": plenty, "held": 0, "sold": 0,
		"starts_at": "2026-01-01T00:00:00.000Z", "ends_at": "2026-01-02T00:00:00.000Z", "version": 1,
	}).Err())
	events := make([]string, 1000)
	s.each(len(events), func(c *caller, i int) {
		must(c.send(greeting, http.StatusAccepted))
		events[i] = "/v1/events/" + c.field("id")
		eventually(s.ctx, "an event to be done", func() bool {
			c.call(http.MethodGet, events[i], "", http.StatusOK)
			return c.field("state") == "done"
		})
	})
	return w.turns(
		s.getting("event", s.server, events...), s.getting("event hash", s.bare, "/v1/hashes/event"),
		s.getting("sale", s.server, "/v1/sales/open"), s.getting("sale hash", s.bare, "/v1/hashes/sale"))
}
