package handlers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"

	"github.com/anishathalye/porcupine"
)

// The size of a history. All clients are members of one chat.
const (
	linearClients = 5
	linearCalls   = 24 // of each client
	linearSeeds   = 50
)

// The calls of a client.
const (
	linearSend = iota
	linearRead
	linearAck
	linearLook // reads the unread count
)

// chatCall is one call: the user, the kind, and the message id or text.
type chatCall struct {
	kind, user int
	id         int64
	text       string
}

// chatAnswer is the answer to a call.
type chatAnswer struct {
	status     int
	id         int64 // of the sent message, or the acked position
	last       int64
	first      int64
	unread     int64
	gap        bool
	ids, texts string
}

// chatState is the state of a chat: its messages with their senders, and the positions of the
// members.
type chatState struct {
	senders []int
	texts   []string
	acked   [linearClients]int64
}

func (s chatState) last() int64 { return int64(len(s.texts)) }

// first is the first message that some member has not acknowledged.
func (s chatState) first() int64 { return slices.Min(s.acked[:]) + 1 }

// pass moves a position over the user's own messages that follow it (C5).
func (s *chatState) pass(user int) {
	for s.acked[user] < s.last() && s.senders[s.acked[user]] == user {
		s.acked[user]++
	}
}

// chatModel is a chat that is served sequentially.
func chatModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return chatState{} },
		Step: func(state, in, out any) (bool, any) {
			return state.(chatState).step(in.(chatCall), out.(chatAnswer))
		},
		Equal: func(a, b any) bool {
			x, y := a.(chatState), b.(chatState)
			return x.acked == y.acked && slices.Equal(x.texts, y.texts)
		},
	}
}

func (s chatState) step(c chatCall, a chatAnswer) (bool, chatState) {
	switch c.kind {
	case linearSend:
		upToDate := s.acked[c.user] == s.last()
		s.senders, s.texts = append(slices.Clip(s.senders), c.user), append(slices.Clip(s.texts), c.text)
		if upToDate {
			s.acked[c.user] = s.last()
		}
		return a.status == 201 && a.id == s.last(), s
	case linearAck:
		if c.id > s.last() {
			return a.status == 422, s
		}
		s.acked[c.user] = max(s.acked[c.user], c.id)
		s.pass(c.user)
		return a.status == 200 && a.id == s.acked[c.user], s
	case linearRead:
		return a == s.read(c.id), s
	}
	return a == chatAnswer{status: 200, id: s.acked[c.user], last: s.last(), unread: s.unread(c.user)}, s
}

// read is the answer to a read after an id.
func (s chatState) read(after int64) chatAnswer {
	a := chatAnswer{status: 200, last: s.last(), first: s.first(), gap: s.first() > after+1 || after > s.last()}
	for id := max(after+1, s.first()); id <= s.last(); id++ {
		a.ids += fmt.Sprint(id, " ")
		a.texts += s.texts[id-1] + " "
	}
	return a
}

func (s chatState) unread(user int) (n int64) {
	for id := s.acked[user] + 1; id <= s.last(); id++ {
		if s.senders[id-1] != user {
			n++
		}
	}
	return n
}

// chatClient makes calls over HTTP.
type chatClient struct {
	t         testing.TB
	url, chat string
	client    *http.Client
}

// user names a member, who is a member of this chat only, so that the user's list of chats is
// short.
func (c *chatClient) user(n int) string { return fmt.Sprint(c.chat, "-user", n) }

func (c *chatClient) do(method, path, body string, into any) int {
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	storetest.Must(c.t, err)
	r.Header.Set("Content-Type", "application/json")
	res, err := c.client.Do(r)
	if err != nil {
		c.t.Error(err)
		return 0
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode < 300 {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		c.t.Errorf("%s %s: %v", method, path, err)
	}
	return res.StatusCode
}

func (c *chatClient) call(in chatCall) (a chatAnswer) {
	user := c.user(in.user)
	switch in.kind {
	case linearSend:
		var sent api.ChatMessageSent
		a.status = c.do("POST", "/v1/chats/"+c.chat+"/messages", fmt.Sprintf(`{"sender":%q,"text":%q}`, user, in.text), &sent)
		a.id = sent.ID
	case linearAck:
		var acks api.Acks
		a.status = c.do("POST", "/v1/users/"+user+"/messages/ack", fmt.Sprintf(`{"acks":{%q:%d}}`, c.chat, in.id), &acks)
		a.id = acks.Acked[c.chat]
	case linearRead:
		var page api.ChatMessages
		a.status = c.do("GET", fmt.Sprintf("/v1/chats/%s/messages?user=%s&after=%d&limit=500", c.chat, user, in.id), "", &page)
		a.last, a.first, a.gap = page.LastID, page.FirstID, page.Gap
		for _, m := range page.Items {
			a.ids += fmt.Sprint(m.ID, " ")
			a.texts += m.Text + " "
		}
	default:
		a = c.readList(user)
	}
	return a
}

func (c *chatClient) readList(user string) (a chatAnswer) {
	var list api.UserChatList
	a.status = c.do("GET", "/v1/users/"+user+"/chats?limit=500", "", &list)
	for _, item := range list.Items {
		if item.ID == c.chat {
			a.id, a.last, a.unread = item.Acked, item.LastID, item.Unread
		}
	}
	return a
}

// history lets all clients call at once and records when each call began and
// was answered.
func (c *chatClient) history(seed uint64) (ops []porcupine.Operation) {
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for user := range linearClients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(user)))
			var seen int64
			for n := range linearCalls {
				in := chatCall{kind: random.IntN(4), user: user, text: fmt.Sprintf("%d-%d", user, n)}
				in.id = max(0, seen+int64(random.IntN(5))-2)
				from := time.Since(began)
				out := c.call(in)
				to := time.Since(began)
				seen = max(seen, out.last, out.id)
				mu.Lock()
				ops = append(ops, porcupine.Operation{ClientId: user, Input: in, Call: from.Nanoseconds(), Output: out, Return: to.Nanoseconds()})
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return ops
}

// linearizable runs one history against the server at url.
func (w *world) linearizable(url string, seed uint64) porcupine.CheckResult {
	w.t.Helper()
	c := &chatClient{t: w.t, url: url, chat: fmt.Sprintf("linear%d", rand.Uint64()), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: linearClients}}}
	defer c.client.CloseIdleConnections()
	var members []string
	for user := range linearClients {
		members = append(members, c.user(user))
	}
	w.mustChat(c.chat, members...)
	return porcupine.CheckOperationsTimeout(chatModel(), c.history(seed), time.Minute)
}

// Send, read and ack over real HTTP are linearizable: each seems to happen at one moment between
// its call and its answer. The same check rejects a server that marks messages as read when it
// shows them, and one that shows old answers.
func TestC1_Linearizable(t *testing.T) {
	t.Parallel()
	w := setupOn(t, storetest.Open(t, storetest.Redis(t).URL()))
	t.Run("fanfare", func(t *testing.T) {
		for seed := range uint64(storetest.Sized(linearSeeds, 12)) {
			if result := w.linearizable(w.url, seed); result != porcupine.Ok {
				t.Fatalf("seed %d: %s", seed, result)
			}
		}
	})
	for name, wrap := range map[string]func(*world) http.Handler{"reading marks as read": ackingReads, "a stale answer": staleReads} {
		t.Run(name, func(t *testing.T) {
			broken := httptest.NewServer(wrap(w))
			defer broken.Close()
			for seed := range uint64(linearSeeds) {
				if w.linearizable(broken.URL, seed) == porcupine.Illegal {
					return
				}
			}
			t.Error("was not found out")
		})
	}
}

// ackingReads is a server that acknowledges the messages that it shows, which is a known fault
// (C15).
func ackingReads(w *world) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		a := httptest.NewRecorder()
		w.handler.ServeHTTP(a, r)
		var page api.ChatMessages
		if user := r.URL.Query().Get("user"); user != "" && json.Unmarshal(a.Body.Bytes(), &page) == nil && len(page.Items) > 0 {
			chat := strings.Split(r.URL.Path, "/")[3]
			_, _ = w.chats.Ack(r.Context(), user, map[string]int64{chat: page.Items[len(page.Items)-1].ID}, nil)
		}
		copyAnswer(rw, a)
	})
}

// staleReads is a server that caches answers for a moment.
func staleReads(w *world) http.Handler {
	type kept struct {
		answer *httptest.ResponseRecorder
		at     time.Time
	}
	var mu sync.Mutex
	answers := map[string]kept{}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		k := answers[r.URL.String()]
		mu.Unlock()
		if r.Method != http.MethodGet || time.Since(k.at) > 20*time.Millisecond {
			k = kept{httptest.NewRecorder(), time.Now()}
			w.handler.ServeHTTP(k.answer, r)
		}
		if r.Method == http.MethodGet {
			mu.Lock()
			answers[r.URL.String()] = k
			mu.Unlock()
		}
		copyAnswer(rw, k.answer)
	})
}

func copyAnswer(w http.ResponseWriter, a *httptest.ResponseRecorder) {
	w.Header().Set("Content-Type", a.Header().Get("Content-Type"))
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body.Bytes())
}
