package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// followed is an open stream of a user's chats.
type followed struct {
	t     testing.TB
	body  io.ReadCloser
	lines *bufio.Scanner
	last  string // the id after which to go on
}

// mustFollow opens a stream that goes on after an event; "" is the beginning.
func (p *program) mustFollow(user, after string) *followed {
	p.t.Helper()
	return p.mustFollowBy(&http.Client{Transport: &http.Transport{}}, user, after)
}

// mustFollowBy is mustFollow with the caller's HTTP client.
func (p *program) mustFollowBy(own *http.Client, user, after string) *followed {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/v1/users/"+user+"/messages/stream", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	if p.key != "" {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}
	resp, err := own.Do(req) //nolint:bodyclose // it is closed at the end of the test
	if err != nil {
		p.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		p.t.Fatalf("follow %s: %s", user, resp.Status)
	}
	f := &followed{t: p.t, body: resp.Body, lines: bufio.NewScanner(resp.Body), last: after}
	late := time.AfterFunc(time.Minute, cancel)
	p.t.Cleanup(func() {
		late.Stop()
		cancel()
		_ = f.body.Close()
	})
	return f
}

// texts reads events until there are n messages, and returns their texts.
func (f *followed) texts(n int) (texts string) {
	f.t.Helper()
	for n > 0 && f.lines.Scan() {
		name, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch name {
		case "id":
			f.last = value
		case "event":
			if value != "message" {
				f.t.Fatalf("an event %s", value)
			}
		case "data":
			var m struct{ Text string }
			if err := json.Unmarshal([]byte(value), &m); err != nil {
				f.t.Fatal(err)
			}
			texts += m.Text + " "
			n--
		}
	}
	if n > 0 {
		f.t.Fatalf("the stream ended after %q: %v", texts, f.lines.Err())
	}
	return texts
}

// ended reads to the end of the stream.
func (f *followed) ended() {
	for f.lines.Scan() {
	}
}

func (p *program) mustSay(chat, sender string, texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		p.must(201, nil, "POST", "/v1/chats/"+chat+"/messages", map[string]string{"sender": sender, "text": text})
	}
}

// A stream goes on exactly where it left off after a kill -9 of server and Redis. Users with a
// stream get no push, and users without a stream get one.
func TestChat(t *testing.T) {
	t.Parallel()
	apns := apnstest.Start(t, apnstest.Options{})
	redis := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	dir := t.TempDir()
	vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL())...)
	p := mustServe(t, dir, vars...)
	p.must(201, nil, "PUT", "/v1/event-types/chat.message", map[string]any{"title": "{{.actor}}", "body": "{{.data.text}}"})
	p.mustRegister(2)
	p.must(201, nil, "POST", "/v1/chats", map[string]any{"id": "team", "creator": "ann", "members": []string{"user-0", "user-1"}})
	f := p.mustFollow("user-0", "")
	arrived := func(want ...string) {
		t.Helper()
		storetest.Eventually(t, 30*time.Second, fmt.Sprint("pushes of ", want), func() bool { return apns.Total() >= len(want) })
		for i, r := range apns.Requests() {
			if i >= len(want) || r.Token != deviceToken(1) || !strings.Contains(string(r.Payload), `"message_id":"`+want[i]+`"`) {
				t.Errorf("push %d: %s to %s", i, r.Payload, r.Token)
			}
		}
	}
	// Each message waits for the push of the previous one, because P5 promises no order for
	// messages that are sent at the same time.
	p.mustSay("team", "ann", "one")
	arrived("1")
	p.mustSay("team", "ann", "two")
	arrived("1", "2")
	p.mustSay("team", "ann", "three")
	if got := f.texts(2); got != "one two " {
		t.Fatalf("heard %q", got)
	}
	at := f.last
	arrived("1", "2", "3")
	// A push that APNs has and Redis does not know of yet would be sent again after the kill.
	for _, r := range apns.Requests() {
		var pushed struct {
			ID string `json:"event_id"`
		}
		storetest.Must(t, json.Unmarshal(r.Payload, &pushed))
		p.mustBeDelivered(pushed.ID)
	}

	p.kill()
	redis.Restart()
	p = mustServe(t, dir, vars...)
	f = p.mustFollow("user-0", at)
	p.mustSay("team", "ann", "four")
	if got := f.texts(2); got != "three four " {
		t.Fatalf("went on with %q", got)
	}
	arrived("1", "2", "3", "4")
	code, took := p.terminate()
	f.ended()
	if code != 0 || took > 8*time.Second { // one stream is open; draining takes less than a second
		t.Errorf("exit code %d after %v with an open stream", code, took)
	}
}

// FANFARE_SHUTDOWN_TIMEOUT: many open streams and a long poll do not delay the stop, and clients
// are told when to come back.
func TestSIGTERMWithOpenStreams(t *testing.T) {
	t.Parallel()
	p := mustServe(t, t.TempDir(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL())
	conns := p.mustOpenStreams("idle", 200)
	polled := make(chan int, 1)
	go func() {
		status, _, err := p.try("GET", "/v1/users/eve/messages/pending?wait_ms=30000", nil)
		if err != nil {
			t.Error(err)
		}
		polled <- status
	}()
	p.awaitStreams(201)
	code, took := p.terminate()
	if code != 0 || took > 10*time.Second {
		t.Errorf("exit code %d after %v", code, took)
	}
	for _, c := range conns {
		rest, err := io.ReadAll(c)
		if err != nil && !errors.Is(err, net.ErrClosed) || !strings.Contains(string(rest), "retry: ") || !strings.HasSuffix(string(rest), "\r\n0\r\n\r\n") {
			t.Fatalf("a stream ended with %q, %v", rest, err)
		}
	}
	if status := <-polled; status != 200 {
		t.Errorf("the poll was answered %d", status)
	}
}

// mustOpenStreams opens an idle stream for each of n users, with 100 users in each chat. The names
// of users and chats begin with the given name.
func (p *program) mustOpenStreams(name string, n int) (conns []net.Conn) {
	p.t.Helper()
	const room = 100
	p.each(n/room, func(i int) error {
		names := make([]string, room)
		for k := range names {
			names[k] = fmt.Sprint(name, i*room+k)
		}
		status, answer, err := p.try("POST", "/v1/chats", map[string]any{"id": fmt.Sprint(name, i), "creator": names[0], "members": names})
		if err == nil && status != 201 {
			err = fmt.Errorf("%d %s", status, answer)
		}
		return err
	})
	conns = make([]net.Conn, n)
	p.each(n, func(i int) error {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
		if err != nil {
			return err
		}
		conns[i] = c
		_, err = fmt.Fprintf(c, "GET /v1/users/%s%d/messages/stream HTTP/1.1\r\nHost: localhost\r\n\r\n", name, i)
		if err != nil {
			return err
		}
		return readPast(c, "\nid: ")
	})
	p.t.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return conns
}

// readPast reads until a text has come.
func readPast(c net.Conn, text string) error {
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	var all []byte
	buf := make([]byte, 4096)
	for !strings.Contains(string(all), text) {
		n, err := c.Read(buf)
		if err != nil {
			return fmt.Errorf("after %q: %w", all, err)
		}
		all = append(all, buf[:n]...)
	}
	return nil
}

// figure reads one figure of /metrics.
func (p *program) figure(name string) float64 {
	p.t.Helper()
	v, err := strconv.ParseFloat(p.metric(name), 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

func (p *program) awaitStreams(n float64) {
	p.t.Helper()
	storetest.Eventually(p.t, 30*time.Second, fmt.Sprint(n, " streams are open"), func() bool { return p.figure("fanfare_open_streams") == n })
}

// residentMemory is the resident memory of the process, in bytes.
func (p *program) residentMemory() int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// memoryInUse is the process's heap and stacks, in bytes.
func (p *program) memoryInUse() float64 {
	return p.figure("go_memstats_heap_inuse_bytes") + p.figure("go_memstats_stack_inuse_bytes")
}

// This opens 5,000 idle streams (fewer by default) and measures the memory of each, including
// goroutines, stacks and buffers.
func TestIdleStreamsMemory(t *testing.T) {
	t.Parallel()
	const bound = 18 << 10 // 12 KB at the time of writing
	streams := storetest.Sized(5000, 2000)
	p := mustServeShipped(t, "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "GOGC=4") // so that the heap has little garbage
	p.mustOpenStreams("first", 100)
	inUse, resident := p.memoryInUse(), p.residentMemory()
	p.mustOpenStreams("idle", streams)
	p.awaitStreams(float64(streams + 100))
	each := (p.memoryInUse() - inUse) / float64(streams)
	t.Logf("%d idle streams: %.1f KiB each in use, %.1f resident", streams, each/1024, float64(p.residentMemory()-resident)/float64(streams)/1024)
	if each > bound {
		t.Errorf("each takes %.0f bytes, the bound is %d", each, bound)
	}
}
