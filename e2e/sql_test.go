package e2e

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apnstest"
	"fanfare/store/storetest"
)

// cable is a way to a server that can be cut and mended.
type cable struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	cut      bool
	open     map[net.Conn]bool
}

// mustCable lays a cable to an address.
func mustCable(t testing.TB, target string) *cable {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{listener: listener, target: target, open: map[net.Conn]bool{}}
	go c.accept()
	t.Cleanup(func() {
		_ = listener.Close()
		c.set(true)
	})
	return c
}

func (c *cable) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		go c.carry(conn)
	}
}

// carry joins a connection with one to the target.
func (c *cable) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", c.target)
	if err != nil || !c.keep(near, far) {
		return
	}
	defer far.Close()
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	_, _ = io.Copy(near, far)
}

// keep remembers connections, unless the cable is cut.
func (c *cable) keep(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		c.open[conn] = true
		if c.cut {
			_ = conn.Close()
		}
	}
	return !c.cut
}

// set cuts the cable or mends it.
func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for conn := range c.open {
		if cut {
			_ = conn.Close()
			delete(c.open, conn)
		}
	}
}

// Failure table, SQL away: push goes on from the cache, the calls that need
// SQL answer 503 unavailable, and it heals by itself.
func TestSQLGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	apns, url := apnstest.Start(t, apnstest.Options{}), storetest.MySQL(t)
	_, rest, _ := strings.Cut(url, "@")
	host, _, _ := strings.Cut(rest, "/")
	c := mustCable(t, host)
	p := mustServe(t, t.TempDir(), append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(),
		"FANFARE_DATABASE_URL="+strings.Replace(url, host, c.listener.Addr().String(), 1))...)
	p.mustRegister(2)
	p.must(202, nil, "POST", "/v1/events", greeting("user-0")) // now user-0 is in the cache
	apns.MustWait(t, 1, 10*time.Second)

	c.set(true)
	storetest.Eventually(t, 10*time.Second, "readyz says that SQL is down", func() bool { return sqlState(p) == "down" })
	var problem struct{ Code string }
	p.must(503, &problem, "PUT", "/v1/users/user-2/opt-outs/greeting", nil)
	if problem.Code != "unavailable" {
		t.Errorf("code %q", problem.Code)
	}
	p.must(202, nil, "POST", "/v1/events", greeting("user-0"))
	apns.MustWait(t, 2, 10*time.Second)
	p.must(202, nil, "POST", "/v1/events", greeting("user-1")) // not in the cache: it waits

	c.set(false)
	storetest.Eventually(t, 20*time.Second, "readyz says that SQL is back", func() bool { return sqlState(p) == "ok" })
	p.must(204, nil, "PUT", "/v1/users/user-0/opt-outs/greeting", nil)
	apns.MustWait(t, 3, 30*time.Second)
}

// sqlState is what readyz, which stays 200, says about SQL.
func sqlState(p *program) string {
	p.t.Helper()
	var r api.Readiness
	p.must(200, &r, "GET", "/readyz", nil)
	for _, d := range r.Dependencies {
		if d.Name == "sql" {
			return d.State
		}
	}
	return ""
}
