package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/storetest"
)

func TestProxy(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (p *storetest.Proxy, ping func() error) {
		t.Helper()
		p, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
		o, err := redis.ParseURL(url)
		storetest.Must(t, err)
		o.MaxRetries, o.ReadTimeout = -1, 300*time.Millisecond
		client := redis.NewClient(o)
		t.Cleanup(func() { _ = client.Close() })
		ping = func() error { return client.Ping(context.Background()).Err() }
		storetest.Must(t, ping())
		return p, ping
	}
	broken := func(t *testing.T, ping func() error) {
		t.Helper()
		if ping() == nil {
			t.Error("the answer came through")
		}
	}
	t.Run("CutAndMend", func(t *testing.T) {
		t.Parallel()
		p, ping := setup(t)
		if p.Bytes() == 0 || len(p.Conns()) == 0 {
			t.Errorf("%d bytes, %d connections", p.Bytes(), len(p.Conns()))
		}
		p.Cut()
		broken(t, ping)
		p.Mend()
		storetest.Eventually(t, 30*time.Second, "it answers again", func() bool { return ping() == nil })
	})
	t.Run("SwallowAll", func(t *testing.T) {
		t.Parallel()
		p, ping := setup(t)
		p.Swallow(true)
		broken(t, ping)
		p.Swallow(false)
		storetest.Eventually(t, 30*time.Second, "it answers again", func() bool { return ping() == nil })
	})
	t.Run("SwallowOne", func(t *testing.T) {
		t.Parallel()
		p, ping := setup(t)
		for _, c := range p.Conns() {
			c.Swallow()
		}
		broken(t, ping)
		storetest.Eventually(t, 30*time.Second, "a new connection answers", func() bool { return ping() == nil })
	})
	t.Run("Delay", func(t *testing.T) {
		t.Parallel()
		p, ping := setup(t)
		p.Delay(20 * time.Millisecond)
		if began := time.Now(); ping() != nil || time.Since(began) < 40*time.Millisecond {
			t.Errorf("a ping took %v", time.Since(began))
		}
	})
	t.Run("Rate", func(t *testing.T) {
		t.Parallel()
		p, ping := setup(t)
		p.Rate(280) // a PING has 14 bytes, its answer 7
		if began := time.Now(); ping() != nil || time.Since(began) < 75*time.Millisecond {
			t.Errorf("a ping took %v", time.Since(began))
		}
	})
	t.Run("Hold", func(t *testing.T) {
		t.Parallel()
		p, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
		o, err := redis.ParseURL(url)
		storetest.Must(t, err)
		o.MaxRetries, o.ReadTimeout = -1, 300*time.Millisecond
		client := redis.NewClient(o)
		defer client.Close()
		storetest.Must(t, client.Ping(t.Context()).Err())
		p.Hold(true)
		if client.Incr(t.Context(), "n").Err() == nil {
			t.Error("the answer came through")
		}
		p.Hold(false)
		storetest.Eventually(t, 30*time.Second, "what was held arrives", func() bool { return client.Get(t.Context(), "n").Val() == "1" })
	})
	t.Run("Resets", func(t *testing.T) {
		t.Parallel()
		p, ping := setup(t)
		p.Resets(1, 1)
		broken(t, ping)
		raw, err := net.Dial("tcp", p.Addr())
		storetest.Must(t, err)
		defer raw.Close()
		_, _ = raw.Write([]byte("PING\r\n"))
		if _, err := raw.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a reset shows as %v", err)
		}
		p.Resets(0, 1)
		storetest.Eventually(t, 30*time.Second, "it answers again", func() bool { return ping() == nil })
	})
	t.Run("LoseAnAnswer", func(t *testing.T) {
		t.Parallel()
		p, ping := setup(t)
		p.OnSent(func(c *storetest.ProxyConn, sent []byte) storetest.Fate {
			c.Marked.Store(bytes.Contains(bytes.ToLower(sent), []byte("ping")))
			return storetest.Pass
		})
		p.OnAnswer(func(c *storetest.ProxyConn, _ []byte) storetest.Fate {
			if c.Marked.Load() {
				return storetest.Close
			}
			return storetest.Pass
		})
		broken(t, ping)
	})
}
