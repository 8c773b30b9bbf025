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
const apiRole = "FANFARE_ROLES=api"

// buying is a load of reservations of one unit each, by n buyers at once.
func buying(path string, want, callers int, addrs ...string) *load {
	rendered := make([][]byte, customers)
	for i := range rendered {
		body := fmt.Sprintf(`{"user":"user-%d","lines":[{"sku":"s","quantity":1}]}`, i)
		rendered[i] = request(http.MethodPost, path+"/reservations", body)
	}
	return requests(want, callers, rendered, addrs...)
}

// getting is a load of GETs of some names below a path.
func getting(addr, path string, names ...string) *load {
	rendered := make([][]byte, len(names))
	for i, name := range names {
		rendered[i] = request(http.MethodGet, path+name, "")
	}
	return requests(http.StatusOK, connections, rendered, addr)
}

// oneCaller limits a load to a single caller.
func oneCaller(l *load) *load {
	l.callers = 1
	return l
}

// putSale makes a sale of one sku that is open for a day, with a limit for each user.
func (s *stage) putSale(id string, units int64, partitions int) {
	const form = `{"items":[{"sku":"s","stock":%d}],"starts_at":%q,"ends_at":%q,"per_user_limit":1000000,"partitions":%d}`
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	each(s.ctx, s.server.addr, 1, func(c *caller, _ int) {
		c.call(http.MethodPut, "/v1/sales/"+id, fmt.Sprintf(form, units, at(-time.Hour), at(24*time.Hour), partitions), http.StatusCreated)
	})
}

// sales compares reservations with a bare handler and one bounded decrement, and refusals
// after sold out with a bare handler without Redis.
func sales(w *world) []side {
	s := w.stage(plan{bare: true, env: []string{apiRole}})
	must(s.redis.db.Set(w.ctx, "bare:stock:open", plenty, 0).Err())
	s.putSale("open", plenty, 1)
	s.putSale("empty", 0, 1)
	const open, empty = "/v1/sales/open", "/v1/sales/empty"
	reserve := buying(open, http.StatusCreated, connections, s.server.addr)
	half := *reserve
	return []side{
		{"reserve", func(ctx context.Context, d time.Duration) sample {
			found := reserve.run(ctx, d)
			half.rate = found["rate"] / 2
			return found
		}, []*process{s.redis, s.server}},
		s.flood("script", s.bare, buying(open, http.StatusCreated, connections, s.bare.addr)),
		s.flood("refuse", s.server, buying(empty, http.StatusConflict, connections, s.server.addr)),
		s.flood("json", s.bare, buying("/v1/sold-out/empty", http.StatusConflict, connections, s.bare.addr)),
		s.flood("half", s.server, &half),
	}
}

// saleProcesses compares three processes with the role api with a single one.
func saleProcesses(w *world) []side {
	s := w.stage(plan{env: []string{apiRole}})
	one := s.server.addr
	addrs := []string{one, s.join(apiRole).addr, s.join(apiRole).addr}
	s.putSale("one", plenty, 1)
	s.putSale("eight", plenty, 8)
	return []side{
		s.flood("once", s.server, buying("/v1/sales/one", http.StatusCreated, connections, one)),
		s.flood("whole", s.server, buying("/v1/sales/one", http.StatusCreated, connections, addrs...)),
		s.flood("split", s.server, buying("/v1/sales/eight", http.StatusCreated, connections, addrs...)),
	}
}

// buyers lets n buyers reserve at once, each on its own connection, and as many be refused after
// everything is sold. A buyer that exceeds the limit of the process gets 503 and tries again at
// once.
func buyers(w *world, n int) (line []float64) {
	s := w.stage(plan{env: []string{apiRole, "FANFARE_SALE_MAX_IN_FLIGHT=20000"}})
	s.putSale("open", plenty, 1)
	s.putSale("empty", 0, 1)
	reserve := buying("/v1/sales/open", http.StatusCreated, n, s.server.addr)
	refuse := buying("/v1/sales/empty", http.StatusConflict, n, s.server.addr)
	reserve.also, refuse.also = http.StatusServiceUnavailable, http.StatusServiceUnavailable
	m := w.turns(s.flood("reserve", s.server, reserve), s.flood("refuse", s.server, refuse))
	for _, side := range []string{"reserve ", "refuse "} {
		line = append(line, m[side+"rate"], m[side+"p50"], m[side+"p99"], 100*m[side+"also"])
	}
	return line
}

// orders measures a sale with n orders: reading it, further reservations, and how long it takes to
// restore it after Redis lost everything.
func orders(w *world, n int) []float64 {
	s := w.stage(plan{env: []string{"FANFARE_SALE_LOCAL=off"}})
	s.putSale("open", plenty, 1)
	sold, bytes := s.sell(n)
	m := w.turns(
		s.flood("read", s.server, oneCaller(getting(s.server.addr, "/v1/sales/", "open"))),
		s.flood("list", s.server, oneCaller(getting(s.server.addr, "/v1/sales/", "open/orders"))),
		s.flood("reserve", s.server, buying("/v1/sales/open", http.StatusCreated, connections, s.server.addr)))
	return []float64{sold, m["read p50"], m["list p50"], m["reserve rate"], bytes, s.lose().Seconds()}
}

// sell sells one unit to each of n users and waits until all orders are on record. It returns the
// orders per second and the memory that each takes in Redis.
func (s *stage) sell(n int) (rate, bytes float64) {
	before, began := s.memory(), time.Now()
	const path = "/v1/sales/open/reservations"
	each(s.ctx, s.server.addr, n, func(c *caller, i int) {
		c.call(http.MethodPost, path, fmt.Sprintf(`{"user":"buyer-%d","lines":[{"sku":"s","quantity":1}]}`, i), http.StatusCreated)
		c.call(http.MethodPost, path+"/"+c.field("id")+"/confirm", "", http.StatusOK)
	})
	eventually(s.ctx, 10*time.Minute, "all orders to be on record", func() bool {
		time.Sleep(50 * time.Millisecond) // each question takes processor time
		return s.stats().Sales.Waiting == 0
	})
	rate = float64(n) / time.Since(began).Seconds()
	return rate, max(s.memory()-before, 1) / float64(n)
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
	must(s.redis.db.FlushAll(s.ctx).Err())
	began := time.Now()
	each(s.ctx, s.server.addr, 1, func(c *caller, _ int) {
		eventually(s.ctx, 10*time.Minute, "the sale to be back", func() bool {
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

// userNames are the names of n users.
func userNames(form string, first, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(form, first+i)
	}
	return names
}

// putChat makes a chat. Its first member is the creator.
func (c *caller) putChat(id string, names []string) {
	members := got(json.Marshal(names))
	c.call(http.MethodPost, "/v1/chats", fmt.Sprintf(`{"id":%q,"creator":%q,"members":%s}`, id, names[0], members), http.StatusCreated)
}

// chats compares sends to 64 chats with a bare handler and one script.
func chats(w *world) []side {
	s := w.stage(plan{bare: true, env: []string{apiRole}})
	rendered := make([][]byte, connections)
	for i := range rendered {
		rendered[i] = message(fmt.Sprintf("chat-%d", i), "user-0")
	}
	each(w.ctx, s.server.addr, connections, func(c *caller, i int) {
		c.putChat(fmt.Sprintf("chat-%d", i), userNames("user-%d", 0, 2))
	})
	return []side{
		s.flood("ours", s.server, requests(http.StatusCreated, connections, rendered, s.server.addr)),
		s.flood("bare", s.bare, requests(http.StatusCreated, connections, rendered, s.bare.addr)),
	}
}

// members lets 64 callers send to one chat of n members.
func members(w *world, n int) []float64 {
	s := w.stage(plan{env: []string{apiRole}})
	each(w.ctx, s.server.addr, 1, func(c *caller, _ int) { c.putChat("team", userNames("user-%d", 0, n)) })
	m := w.turns(s.flood("send", s.server,
		requests(http.StatusCreated, connections, [][]byte{message("team", "user-0")}, s.server.addr)))
	return []float64{m["send rate"], m["send p50"], m["send p99"]}
}

//go:embed lua/lock_release.lua
var releaseText string

// chatStore compares sends through store/chat with the textbook's way: lock, INCR, ZADD, unlock.
// Both run in this process, without HTTP.
func chatStore(w *world) []side {
	store := w.redis()
	db := got(redisdb.Open(w.ctx, redisdb.Options{URL: "redis://" + store.addr}))
	names := userNames("user-%d", 0, senders)
	ours := chat.New(db, chat.Options{})
	_, _, err := ours.Create(w.ctx, &api.ChatRequest{ID: "chat", Creator: names[0], Members: names}, api.Idempotency{}, false)
	must(err)
	sending := func(name string, send func(ctx context.Context, sender int, text string) error) side {
		return side{name: name, run: (&load{callers: senders, call: func(ctx context.Context, i int) calls {
			text := strings.Repeat("x", 90) + fmt.Sprint(i)
			return func(_ int, sent time.Time) time.Duration {
				must(send(ctx, i, text))
				return time.Since(sent)
			}
		}}).run}
	}
	return []side{
		sending("ours", func(ctx context.Context, sender int, text string) error {
			_, _, err := ours.Send(ctx, chat.Outgoing{Chat: "chat", Sender: names[sender], Text: text})
			return err
		}),
		sending("lock", sendByLock(redis.NewClient(&redis.Options{Addr: store.addr, PoolSize: senders}))),
	}
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
func reads(w *world) []side {
	s := w.stage(plan{bare: true})
	s.putSale("open", plenty, 1)
	must(s.redis.db.HSet(w.ctx, "bare:hash:event", map[string]any{
		"id": "00000000000000000000000000000000", "type": "greeting", "state": "done", "recipients": 1, "notifications": 1,
		"delivered": 1, "failed": 0, "expired": 0, "retrying": 0, "no_device": 0,
	}).Err())
	must(s.redis.db.HSet(w.ctx, "bare:hash:sale", map[string]any{
		"id": "open", "state": "open", "sku": "s", "total": plenty, "available": plenty, "held": 0, "sold": 0,
		"starts_at": "2026-01-01T00:00:00.000Z", "ends_at": "2026-01-02T00:00:00.000Z", "version": 1,
	}).Err())
	return []side{
		s.flood("event", s.server, getting(s.server.addr, "/v1/events/", s.postEvents(1000)...)),
		s.flood("event hash", s.bare, getting(s.bare.addr, "/v1/hashes/", "event")),
		s.flood("sale", s.server, getting(s.server.addr, "/v1/sales/", "open")),
		s.flood("sale hash", s.bare, getting(s.bare.addr, "/v1/hashes/", "sale")),
	}
}

// postEvents posts n events, waits until all are done, and returns their ids.
func (s *stage) postEvents(n int) []string {
	ids := make([]string, n)
	each(s.ctx, s.server.addr, n, func(c *caller, i int) {
		must(c.send(greeting, http.StatusAccepted))
		ids[i] = c.field("id")
	})
	each(s.ctx, s.server.addr, n, func(c *caller, i int) {
		eventually(s.ctx, 30*time.Second, "an event to be done", func() bool {
			c.call(http.MethodGet, "/v1/events/"+ids[i], "", http.StatusOK)
			return c.field("state") == "done"
		})
	})
	return ids
}
