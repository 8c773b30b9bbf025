package chat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"fanfare/store/lock"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// BenchmarkSixteenSenders compares sending by one script with the textbook's
// way - lock, INCR, ZADD, unlock - with 16 senders in one chat, in the same run:
//
//	go test -run '^$' -bench SixteenSenders ./store/chat
//
// The locks: SET NX with a random token, released by compare, tried again after
// a millisecond; and this repository's own, which hands over at once.
func BenchmarkSixteenSenders(b *testing.B) {
	db := storetest.Open(b, storetest.Redis(b).URL())
	script, setNX, locker := byScript(b, db), bySetNX(b, db), byLock(b, db)
	b.ResetTimer()
	rate, late := sixteen(b, script)
	b.StopTimer()
	rateNX, lateNX := sixteen(b, setNX)
	rateLock, lateLock := sixteen(b, locker)
	for _, m := range []struct {
		unit  string
		value float64
	}{
		{"script/s", rate}, {"setnx/s", rateNX}, {"lock/s", rateLock}, {"x-setnx", rate / rateNX}, {"x-lock", rate / rateLock},
		{"script-p99-ms", late}, {"setnx-p99-ms", lateNX}, {"lock-p99-ms", lateLock},
	} {
		b.ReportMetric(m.value, m.unit)
	}
}

const senders = 16

// sixteen sends b.N messages from 16 senders and gives the rate and the p99 in
// milliseconds.
func sixteen(b *testing.B, send func(int) error) (rate, late float64) {
	took := make([][]time.Duration, senders)
	var g errgroup.Group
	begun := time.Now()
	for sender := range senders {
		g.Go(func() error {
			for range (b.N + senders - 1) / senders {
				since := time.Now()
				if err := send(sender); err != nil {
					return err
				}
				took[sender] = append(took[sender], time.Since(since))
			}
			return nil
		})
	}
	storetest.Must(b, g.Wait())
	rate = float64(senders*((b.N+senders-1)/senders)) / time.Since(begun).Seconds()
	all := slices.Concat(took...)
	slices.Sort(all)
	return rate, float64(all[len(all)*99/100].Microseconds()) / 1000
}

func benchText(sender int) string { return strings.Repeat("x", 90) + strconv.Itoa(sender) }

func byScript(b *testing.B, db *redisdb.DB) func(int) error {
	w := newWorld(b, db, Options{})
	names := make([]string, senders)
	for i := range names {
		names[i] = fmt.Sprint("s", i)
	}
	w.mustCreate("c", names...)
	return func(sender int) error {
		_, _, err := w.send("c", names[sender], benchText(sender))
		return err
	}
}

// underLock is what the textbook does while it has the lock.
func underLock(b *testing.B, c redis.Cmdable, chat string, sender int) error {
	id, err := c.Incr(b.Context(), chat+":ids").Result()
	if err != nil {
		return err
	}
	message := fmt.Sprintf("%d %d %s", id, sender, benchText(sender))
	return c.ZAdd(b.Context(), chat+":messages", zed(float64(id), message)).Err()
}

// unlockByCompare is what every lock of this kind needs: a holder whose time
// was over must not release the next one's.
const unlockByCompare = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

func bySetNX(b *testing.B, db *redisdb.DB) func(int) error {
	c, chat, unlock := db.Client(), newID(), redis.NewScript(unlockByCompare)
	return func(sender int) error {
		token := newRequest()
		for {
			locked, err := c.SetNX(b.Context(), chat+":lock", token, 10*time.Second).Result()
			if err != nil {
				return err
			}
			if locked {
				break
			}
			<-time.After(time.Millisecond)
		}
		if err := underLock(b, c, chat, sender); err != nil {
			return err
		}
		return unlock.Run(b.Context(), c, []string{chat + ":lock"}, token).Err()
	}
}

func byLock(b *testing.B, db *redisdb.DB) func(int) error {
	locker, chat := lock.New(db, lock.Options{Name: "bench", MaxAttempts: 1 << 30}), newID()
	return func(sender int) error {
		a, err := locker.Acquire(b.Context(), chat)
		if err != nil {
			return err
		}
		if err := underLock(b, db.Client(), chat, sender); err != nil {
			return err
		}
		_, err = a.Lease.Release(b.Context())
		return err
	}
}

// BenchmarkPending reads what is pending in many chats.
func BenchmarkPending(b *testing.B) {
	for _, chats := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(chats, "chats"), func(b *testing.B) {
			w := newWorld(b, storetest.Open(b, storetest.Redis(b).URL()), Options{})
			for i := range chats {
				w.mustCreate(fmt.Sprint("c", i), "alice", "bob")
				w.mustSend(fmt.Sprint("c", i), "alice", "hi")
			}
			b.ResetTimer()
			for range b.N {
				p, err := w.Pending(b.Context(), w.id("bob"), 0)
				storetest.Must(b, err)
				if len(p.Chats) != chats {
					b.Fatalf("%d chats", len(p.Chats))
				}
			}
		})
	}
}
