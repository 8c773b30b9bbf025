//go:build linux

package e2e

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"

	"golang.org/x/sys/unix"
)

// The addresses of a network. They exist only in the network's namespaces.
const (
	serverAddress = "10.77.0.1"
	clientAddress = "10.77.0.2"
	clientMAC     = "02:00:00:00:77:02"
)

// network is a pair of network namespaces that are joined by a cable: one for a server and one for
// its clients.
type network struct {
	t              testing.TB
	server, client string
}

// mustNetwork makes the namespaces, or skips the test if that is not allowed.
func mustNetwork(t testing.TB) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces need the program ip (iproute2)")
	}
	name := "fanfare-" + strings.ToLower(rand.Text()[:10])
	n := &network{t: t, server: name + "-s", client: name + "-c"}
	for _, space := range []string{n.server, n.client} {
		if out, err := exec.Command("ip", "netns", "add", space).CombinedOutput(); err != nil {
			t.Skipf("network namespaces are not allowed here: %v: %s", err, out)
		}
		t.Cleanup(func() { n.ip("netns", "del", space) })
	}
	n.ip("link", "add", "cable", "netns", n.server, "type", "veth", "peer", "name", "cable", "address", clientMAC, "netns", n.client)
	for space, address := range map[string]string{n.server: serverAddress, n.client: clientAddress} {
		n.ip("-n", space, "address", "add", address+"/24", "dev", "cable")
		n.ip("-n", space, "link", "set", "cable", "up")
		n.ip("-n", space, "link", "set", "lo", "up")
	}
	return n
}

func (n *network) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Errorf("ip %v: %v: %s", args, err, out)
	}
}

// pull disconnects the cable on the client's side.
func (n *network) pull() { n.ip("-n", n.client, "link", "set", "cable", "down") }

// swallow lets every packet leave and none arrive: the client's side gets another address, of which
// the server does not know.
func (n *network) swallow() {
	n.ip("-n", n.server, "neighbour", "replace", clientAddress, "lladdr", clientMAC, "dev", "cable", "nud", "permanent")
	n.ip("-n", n.client, "address", "del", clientAddress+"/24", "dev", "cable")
}

// mustServe starts a server in its namespace that logs pushes, and waits until it is ready.
func (n *network) mustServe(secure bool) *program {
	n.t.Helper()
	dir := n.t.TempDir()
	vars := []string{"FANFARE_ADDR=" + serverAddress + ":8080", "FANFARE_REDIS_URL=embedded"}
	scheme := "http"
	if secure {
		mustCertificate(n.t, dir, 1)
		scheme, vars = "https", append(vars, "FANFARE_TLS_CERT_FILE="+filepath.Join(dir, "cert.pem"), "FANFARE_TLS_KEY_FILE="+filepath.Join(dir, "key.pem"))
	}
	key := mustCreateKey(n.t, dir, "admin", vars...)
	p := launchPath(n.t, "ip", dir, []string{"netns", "exec", n.server, mustBuild(n.t)}, vars...)
	p.base, p.key, p.http = scheme+"://"+serverAddress+":8080", key, browser(n.server)
	p.awaitReady()
	return p
}

// browser is an HTTP client in one of the namespaces.
func browser(space string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, kind, addr string) (net.Conn, error) {
			return dialFrom(ctx, space, kind, addr)
		},
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
}

// dialFrom dials from a namespace. A socket belongs to the namespace of the thread that made it.
func dialFrom(ctx context.Context, space, kind, addr string) (net.Conn, error) {
	there, err := os.Open(filepath.Join("/var/run/netns", space))
	if err != nil {
		return nil, err
	}
	defer there.Close()
	runtime.LockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer here.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	c, err := (&net.Dialer{}).DialContext(ctx, kind, addr)
	if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back != nil {
		return c, back // the thread is not used for anything else
	}
	runtime.UnlockOSThread()
	return c, err
}

// lostAfter is how long a client that nothing reaches may count as live, and how long its stream
// may stay open. promptly is the additional time for a busy machine.
const (
	lostAfter = 30 * time.Second
	promptly  = 15 * time.Second
)

// C14: a user whose network is lost gets pushes at most 30 s later, and the user's stream is
// closed. A user with a working connection stays live for longer than that.
func TestC14_WhoLosesTheNetworkIsPushedTo(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		secure  bool // HTTP/2, where the lost streams share a connection
		lose    func(*network)
		talking time.Duration // how long after the loss the others begin to send
	}{
		"HTTP1LinkDownInSilence":     {false, (*network).pull, lostAfter},
		"HTTP2PacketsDroppedInATalk": {true, (*network).swallow, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := mustNetwork(t)
			p := n.mustServe(way.secure)
			l := &loss{program: p, talking: way.talking, took: map[string]time.Duration{}}
			l.mustFollowAll(n)
			l.began = time.Now()
			way.lose(n)
			l.mustBeNoticed(map[string]func() bool{
				"the streams are closed": func() bool { return p.figure("fanfare_open_streams") == 1 },
				"ann is pushed to":       func() bool { return l.pushed("ann") },
				"bob is pushed to":       func() bool { return l.pushed("bob") },
			})
			t.Logf("after the network was lost: %v", l.took)
			if l.pushed("here") {
				t.Error("a push to the one who is still there")
			}
		})
	}
}

// loss is a chat of ann and bob, who lose the network, of a user whose connection works, and of
// eve, who has no stream and sends messages.
type loss struct {
	*program
	began   time.Time
	talking time.Duration
	took    map[string]time.Duration
}

// tokensOfLoss are the beginnings of the users' device tokens, as the log shows them.
var tokensOfLoss = map[string]string{"here": "aaaaaaaa", "ann": "bbbbbbbb", "bob": "cccccccc"}

// mustFollowAll opens the streams and waits for a message on each of them.
func (l *loss) mustFollowAll(n *network) {
	l.t.Helper()
	l.awaitDone("PUT", "/v1/event-types/chat.message", map[string]any{"title": "{{.actor}}", "body": "{{.data.text}}"})
	l.awaitDone("POST", "/v1/chats", map[string]any{"id": "team", "creator": "eve", "members": []string{"ann", "bob", "here"}})
	near, far := browser(n.server), browser(n.client)
	var streams []*followed
	for user, token := range tokensOfLoss {
		l.awaitDone("PUT", "/v1/users/"+user+"/devices/"+token+strings.Repeat("0", 56),
			map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "production"})
		from := far
		if user == "here" {
			from = near
		}
		streams = append(streams, l.mustFollowBy(from, user, ""))
	}
	l.mustSay("team", "eve", "hello")
	for _, f := range streams {
		if got := f.texts(1); got != "hello " {
			l.t.Fatalf("heard %q", got)
		}
	}
}

// awaitDone repeats a request until it succeeds, because a server without processor time may time
// out on its embedded Redis.
func (l *loss) awaitDone(method, path string, body any) {
	l.t.Helper()
	storetest.Eventually(l.t, 30*time.Second, method+" "+path, func() bool {
		status, _, err := l.try(method, path, body)
		return err == nil && (status/100 == 2 || status == http.StatusConflict) // done by this request or an earlier one
	})
}

func (l *loss) pushed(user string) bool {
	return strings.Contains(l.stderr.String(), `"token":"`+tokensOfLoss[user]+`"`)
}

// mustBeNoticed checks each second, while eve sends messages, until all expected things have
// happened, and records when. It must not take longer than promised.
func (l *loss) mustBeNoticed(awaited map[string]func() bool) {
	l.t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for len(l.took) < len(awaited) {
		since := time.Since(l.began)
		if since >= l.talking {
			// A server without processor time may refuse a message. The next one is sent in a
			// second.
			_, _, _ = l.try("POST", "/v1/chats/team/messages", map[string]string{"sender": "eve", "text": fmt.Sprint("is anybody there after ", since)})
		}
		for what, happened := range awaited {
			if _, before := l.took[what]; !before && happened() {
				l.took[what] = time.Since(l.began).Round(time.Second)
			}
		}
		if since > lostAfter+promptly {
			l.t.Fatalf("%v after the network was lost this is all that was noticed: %v", since, l.took)
		}
		<-tick.C
	}
}
