package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/chat"
	"fanfare/store/redisdb"
)

// putChat makes a chat with the members user-0 to user-(n-1).
func putChat(c *caller, id string, n int) error {
	names := []byte(`"user-0"`)
	for i := 1; i < n; i++ {
		names = fmt.Appendf(names, `,"user-%d"`, i)
	}
	body := fmt.Appendf(nil, `{"id":%q,"creator":"user-0","members":[%s]}`, id, names)
	return c.call(request(http.MethodPost, "/v1/chats", body), http.StatusCreated)
}

// message renders a message of user-0 to a chat, of about a hundred bytes.
func message(chat string) []byte {
	const text = "A message of about a hundred bytes, as people write them when they have something to say to others."
	return request(http.MethodPost, "/v1/chats/"+chat+"/messages", []byte(`{"sender":"user-0","text":"`+text+`"}`))
}

// sending is a load of messages from as many callers, each to a chat of its own.
func sending(addr string, chats int) *load {
	rendered := make([][]byte, chats)
	for i := range rendered {
		rendered[i] = message(fmt.Sprintf("chat-%d", i))
	}
	return &load{addrs: []string{addr}, connections: chats, want: http.StatusCreated, next: func(i int) []byte { return rendered[i] }}
}

// benchChat compares sends to 64 chats with a bare handler and one script.
func benchChat(ctx context.Context, w *world) (found, error) {
	p, err := w.pair(ctx, "FANFARE_ROLES=api")
	if err != nil {
		return found{}, err
	}
	err = each(ctx, p.server.addr, connections, func(c *caller, i int) error { return putChat(c, fmt.Sprintf("chat-%d", i), 2) })
	if err != nil {
		return found{}, err
	}
	m, err := w.turns(ctx,
		w.flood("ours", sending(p.server.addr, connections)),
		w.flood("bare", sending(p.bare.addr, connections)))
	return found{rows: []row{
		{"chat send, 64 chats, 64 callers", m.of("ours", "rate"), "/s", m.of("bare", "rate"), "bare chi handler, one EVALSHA", atLeast(.9)},
	}}, err
}

// senders is how many send to the one chat.
const senders = 16

//go:embed lua/lock_release.lua
var releaseText string

// benchChatStore compares the store's way to send with the textbook's: lock,
// INCR, ZADD, unlock. Both run here, without HTTP.
func benchChatStore(ctx context.Context, w *world) (found, error) {
	store, err := w.redis()
	if err != nil {
		return found{}, err
	}
	ours, err := sendByStore(ctx, store)
	if err != nil {
		return found{}, err
	}
	m, err := w.turns(ctx, w.sixteen("ours", ours), w.sixteen("lock", sendByLock(store)))
	return found{rows: []row{
		{"chat send, 16 senders, one chat, store alone", m.of("ours", "rate"), "/s", m.of("lock", "rate"), "SET NX lock, INCR, ZADD, unlock", atLeast(9)},
	}}, err
}

// sixteen is a side in which all senders send for one round.
func (*world) sixteen(name string, send func(ctx context.Context, sender int) error) side {
	return side{name, func(ctx context.Context, d time.Duration) (sample, error) {
		var all sync.WaitGroup
		var counts [senders]int
		var fails [senders]error
		began := time.Now()
		for i := range senders {
			all.Go(func() {
				for time.Since(began) < d && fails[i] == nil {
					fails[i] = send(ctx, i)
					counts[i]++
				}
			})
		}
		all.Wait()
		sum := 0
		for i := range senders {
			if fails[i] != nil {
				return nil, fails[i]
			}
			sum += counts[i]
		}
		return sample{"rate": float64(sum) / time.Since(began).Seconds()}, nil
	}}
}

// spoken is what a sender says.
func spoken(sender int) string { return strings.Repeat("x", 90) + fmt.Sprint(sender) }

// sendByStore makes a chat of the store and sends to it.
func sendByStore(ctx context.Context, store *process) (func(context.Context, int) error, error) {
	db, err := redisdb.Open(ctx, redisdb.Options{URL: "redis://" + store.addr})
	if err != nil {
		return nil, err
	}
	names := make([]string, senders)
	for i := range names {
		names[i] = fmt.Sprintf("user-%d", i)
	}
	chats := chat.New(db, chat.Options{})
	_, _, err = chats.Create(ctx, &api.ChatRequest{ID: "chat", Creator: names[0], Members: names}, api.Idempotency{}, false)
	return func(ctx context.Context, sender int) error {
		_, _, err := chats.Send(ctx, chat.Outgoing{Chat: "chat", Sender: names[sender], Text: spoken(sender)})
		return err
	}, err
}

// sendByLock sends under a lock with a random token, that is tried again after a
// millisecond and released by compare.
func sendByLock(store *process) func(context.Context, int) error {
	client := redis.NewClient(&redis.Options{Addr: store.addr, PoolSize: senders})
	release := redis.NewScript(releaseText)
	return func(ctx context.Context, sender int) error {
		token := rand.Text()
		for {
			locked, err := client.SetNX(ctx, "bare:lock", token, 10*time.Second).Result()
			if err != nil {
				return err
			}
			if locked {
				break
			}
			time.Sleep(time.Millisecond)
		}
		id, err := client.Incr(ctx, "bare:ids").Result()
		if err == nil {
			err = client.ZAdd(ctx, "bare:messages", redis.Z{Score: float64(id), Member: fmt.Sprintf("%d %d %s", id, sender, spoken(sender))}).Err()
		}
		if err != nil {
			return err
		}
		return release.Run(ctx, client, []string{"bare:lock"}, token).Err()
	}
}
