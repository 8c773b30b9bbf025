package handlers_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/storetest"
)

// mustAskOnly sends a request on a connection of its own whose answer nobody reads. The connection has
// small segments and a small buffer, as on the way to a phone: otherwise the kernel of this machine
// would take a whole answer.
func (w *world) mustAskOnly(path, header string) net.Conn {
	w.t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		_ = c.Control(func(fd uintptr) {
			err = errors.Join(syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1200),
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 8<<10))
		})
		return err
	}}
	conn, err := dialer.DialContext(w.t.Context(), "tcp", strings.TrimPrefix(w.url, "http://"))
	storetest.Must(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", path, header)
	storetest.Must(w.t, err)
	return conn
}

// setupReaders opens a server on a real Redis whose long answers may have that many bytes; 0: the default.
func setupReaders(t *testing.T, answers int64) (w *world, admin string) {
	t.Helper()
	w = setupOn(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *handlers.Options) {
		o.Web.MaxAnswerBytes, o.Web.RequestTimeout = answers, time.Minute
	})
	return w, "Authorization: Bearer " + w.mustKey(api.ScopeAdmin)
}

// wantRefused asks for a page and fails unless the answer is a problem.
func (w *world) wantRefused(page, header string, status int, problem string) {
	w.t.Helper()
	a := w.do(get(page).with(header))
	if a.status == http.StatusOK {
		w.t.Fatal("a page is answered 200")
	}
	a.wants(w.t, status, problem)
}

// mustFillPage makes a chat with ann that has more than a page of messages, and returns the page's path
// and how many bytes its answer has.
func (w *world) mustFillPage(admin string, members ...string) (page string, size int) {
	w.t.Helper()
	w.mustAnswer(201, w.do(post("/v1/chats", `{"id":"team","creator":"ann","members":["`+strings.Join(members, `","`)+`"]}`).with(admin)))
	body := `{"sender":"ann","text":"` + strings.Repeat("😀", api.MaxMessageText) + `"}`
	for range 70 { // 1.1 MiB
		w.mustAnswer(201, w.post("/v1/chats/team/messages", body, admin))
	}
	page = "/v1/chats/team/messages?limit=500"
	whole := w.do(get(page + "&user=ann").with(admin))
	w.mustAnswer(200, whole)
	return page, len(whole.body)
}

// mustStatus reads the head of an answer, and no more.
func mustStatus(t *testing.T, conn net.Conn) int {
	t.Helper()
	head := make([]byte, len("HTTP/1.1 200"))
	_, err := io.ReadFull(conn, head)
	storetest.Must(t, err)
	return map[string]int{"HTTP/1.1 200": 200, "HTTP/1.1 429": 429, "HTTP/1.1 503": 503}[string(head)]
}

// U5: long answers that their clients do not read take a bounded number of bytes of a process, and of
// one user. Other users, and the user's short answers, do not meet that.
func TestU5_AnswersThatNobodyReads(t *testing.T) {
	t.Parallel()
	w, admin := setupReaders(t, 0)
	page, size := w.mustFillPage(admin, "bob", "eve")
	eve, bob := w.mustToken("eve"), w.mustToken("bob")
	var unread []net.Conn
	begun, refused := 0, 0
	for range 32 {
		conn := w.mustAskOnly(page, eve)
		unread = append(unread, conn)
		switch status := mustStatus(t, conn); status {
		case 200:
			begun++
		case 429:
			refused++
		default:
			t.Errorf("an answer has status %d", status)
		}
	}
	if most := (8 << 20) / size; begun != most || begun+refused != len(unread) {
		t.Errorf("%d answers begin, and %d are refused; want %d that begin", begun, refused, most)
	}
	w.wantRefused(page, eve, 429, problem(api.CodeRateLimited, "this user has too many bytes of answers that were not read yet", `"retry_after_ms":1000`))
	w.do(get("/v1/users/eve/chats").with(eve)).wants(t, 200, `{"items":[{"id":"team","unread":70,"last_id":70,"acked":0}]}`)
	for _, header := range []string{bob, admin} {
		w.mustAnswer(200, w.do(get("/v1/users/bob/messages/pending").with(header)))
	}
	for _, conn := range unread {
		_ = conn.Close()
	}
	storetest.Eventually(t, soon, "the bytes come back", func() bool { return w.do(get(page).with(eve)).status == http.StatusOK })
}

// U5: all clients together have a bound, too: then long answers are refused, and short ones are not.
func TestU5_AnswersThatAllUsersLeaveUnread(t *testing.T) {
	t.Parallel()
	w, admin := setupReaders(t, 10<<20)
	users := []string{"u1", "u2", "u3", "u4", "u5", "u6", "u7", "u8", "u9"}
	page, size := w.mustFillPage(admin, users...)
	for i, user := range users {
		conn := w.mustAskOnly(page, w.mustToken(user))
		if status := mustStatus(t, conn); (status == 200) != ((i+1)*size <= 8<<20) {
			t.Errorf("%s is answered %d", user, status)
		}
	}
	full := problem(api.CodeOverloaded, "the clients of this server have not read as many answers as it can hold; try again", `"retry_after_ms":1000`)
	w.wantRefused(page, w.mustToken("u9"), 503, full)
	w.mustAnswer(200, w.do(get("/v1/users/u9/chats").with(w.mustToken("u9"))))
	w.mustAnswer(200, w.do(get(page+"&user=ann").with(admin))) // a fifth is left for API keys
}

// U5, C13: what a stream sends at once counts, too. A stream for which there is no room ends like that of
// a slow reader, and goes on where it was.
func TestU5_StreamsThatNobodyReads(t *testing.T) {
	t.Parallel()
	w, admin := setupReaders(t, 1<<20) // 128 KiB for a user
	w.workChats()
	w.mustFillPage(admin, "bob", "eve")
	eve := w.mustToken("eve")
	w.do(post("/v1/users/eve/messages/ack", `{"acks":{"team":67}}`).with(eve)).wants(t, 200, `{"acked":{"team":67}}`)
	short := w.wantStream("", 200, "eve", eve)
	for range 3 {
		short.wantData()
	}
	long := w.wantStream("", 200, "bob", w.mustToken("bob"))
	long.wantEnd()
	w.mustHave(`fanfare_streams_ended_total{reason="slow"} 1`)
	w.mustHave("fanfare_open_streams 1")
}
