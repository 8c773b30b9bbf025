package chat

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// testPatience is how long tests wait for what should take a moment.
const testPatience = 30 * time.Second

// world is one store on a Redis of the test's own, or on names of its own on
// the Cluster that all tests share.
type world struct {
	*Store
	db     *redisdb.DB // without the fault of the store's own
	t      testing.TB
	prefix string
}

// eachWorld runs a test on a real Redis, on the embedded one and on a Cluster.
func eachWorld(t *testing.T, o Options, fn func(t *testing.T, w *world)) {
	t.Helper()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) { fn(t, newWorld(t, db, o)) })
}

func newWorld(t testing.TB, db *redisdb.DB, o Options) *world {
	return &world{Store: New(db, o), db: db, t: t, prefix: newID()[:10] + "-"}
}

// another is a second process on the same Redis, with a fault between them.
func (w *world) another(f storetest.Fault) *world {
	s := New(storetest.Faulty(w.t, w.db, f), w.o)
	s.run = w.run
	return &world{Store: s, db: w.db, t: w.t, prefix: w.prefix}
}

// twice is a client of Redis whose every answer is lost.
func twice(_ string, answered bool) error {
	if answered {
		return storetest.ErrTwice
	}
	return nil
}

// id makes a name that no other test has.
func (w *world) id(name string) string { return w.prefix + name }

func (w *world) ids(names ...string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = w.id(name)
	}
	return out
}

// mustCreate makes a chat of members, the first of whom is the creator.
func (w *world) mustCreate(chat string, members ...string) *api.Chat {
	w.t.Helper()
	names := w.ids(members...)
	c, _, err := w.Create(w.ctx(), &api.ChatRequest{ID: w.id(chat), Creator: names[0], Members: names[1:]}, api.Idempotency{}, false)
	storetest.Must(w.t, err)
	return c
}

func (w *world) ctx() context.Context { return w.t.(interface{ Context() context.Context }).Context() }

func (w *world) mustSend(chat, sender, text string) int64 {
	w.t.Helper()
	sent, _, err := w.send(chat, sender, text)
	storetest.Must(w.t, err)
	return sent.ID
}

func (w *world) send(chat, sender, text string) (*api.ChatMessageSent, bool, error) {
	return w.Send(w.ctx(), Outgoing{Chat: w.id(chat), Sender: w.id(sender), Text: text})
}

func (w *world) ack(chat, user string, id int64) (int64, error) {
	acks, err := w.Ack(w.ctx(), w.id(user), map[string]int64{w.id(chat): id}, nil)
	if err != nil {
		return 0, err
	}
	return acks.Acked[w.id(chat)], nil
}

func (w *world) mustAck(chat, user string, id int64) int64 {
	w.t.Helper()
	acked, err := w.ack(chat, user, id)
	storetest.Must(w.t, err)
	return acked
}

func (w *world) mustJoin(chat, user string, fromStart bool) bool {
	w.t.Helper()
	_, joined, err := w.Join(w.ctx(), w.id(chat), w.id(user), fromStart)
	storetest.Must(w.t, err)
	return joined
}

func (w *world) mustLeave(chat, user string) {
	w.t.Helper()
	storetest.Must(w.t, w.Leave(w.ctx(), w.id(chat), w.id(user)))
}

func (w *world) read(chat, user string, q MessagesQuery) (*api.ChatMessages, error) {
	q.User = w.id(user)
	return w.Messages(w.ctx(), w.id(chat), q)
}

func (w *world) mustRead(chat, user string, q MessagesQuery) *api.ChatMessages {
	w.t.Helper()
	m, err := w.read(chat, user, q)
	storetest.Must(w.t, err)
	return m
}

// after and before are bounds of a query.
func after(id int64) *int64 { return &id }

var before = after

// show writes what a read found: "1:hi 2:ho first=1 last=2", with "gap" at the
// end if there is one.
func show(m *api.ChatMessages) string {
	out := showItems(m.Items)
	out = append(out, fmt.Sprintf("first=%d last=%d", m.FirstID, m.LastID))
	if m.Gap {
		out = append(out, "gap")
	}
	return strings.Join(out, " ")
}

func showItems(items []api.ChatMessage) []string {
	var out []string
	for _, i := range items {
		out = append(out, fmt.Sprintf("%d:%s", i.ID, i.Text))
	}
	return out
}

func (w *world) wantRead(chat, user string, q MessagesQuery, want string) {
	w.t.Helper()
	if got := show(w.mustRead(chat, user, q)); got != want {
		w.t.Fatalf("%s reads %q in %s, want %q", user, got, chat, want)
	}
}

// chats writes a user's chats: "a:2/5@3" is chat a with 2 unread, last id 5,
// acknowledged up to 3.
func (w *world) chats(user string) string {
	w.t.Helper()
	var out []string
	for cursor, more := "", true; more; more = cursor != "" {
		var items []api.UserChat
		var err error
		items, cursor, err = w.UserChats(w.ctx(), w.id(user), cursor, 0)
		storetest.Must(w.t, err)
		for _, c := range items {
			out = append(out, fmt.Sprintf("%s:%d/%d@%d", strings.TrimPrefix(c.ID, w.prefix), c.Unread, c.LastID, c.Acked))
		}
	}
	return strings.Join(out, " ")
}

func (w *world) wantChats(user, want string) {
	w.t.Helper()
	if got := w.chats(user); got != want {
		w.t.Fatalf("the chats of %s are %q, want %q", user, got, want)
	}
}

// pending writes what a user has pending: "a:2[2:hi 3:ho]" is chat a with 2
// unread; a gap is a "!".
func (w *world) pending(user string, limit int) string {
	w.t.Helper()
	p, err := w.Pending(w.ctx(), w.id(user), limit)
	storetest.Must(w.t, err)
	var out []string
	for _, c := range p.Chats {
		gap := ""
		if c.Gap {
			gap = "!"
		}
		if c.Error != nil {
			gap = "?" + string(c.Error.Code)
		}
		out = append(out, fmt.Sprintf("%s:%d%s[%s]", strings.TrimPrefix(c.ID, w.prefix), c.Unread, gap, strings.Join(showItems(c.Items), " ")))
	}
	return strings.Join(out, " ")
}

func (w *world) wantPending(user, want string) {
	w.t.Helper()
	if got := w.pending(user, 0); got != want {
		w.t.Fatalf("pending for %s is %q, want %q", user, got, want)
	}
}

// members writes a chat's members: "alice@3 bob@0".
func (w *world) members(chat string) string {
	w.t.Helper()
	list, err := w.Members(w.ctx(), w.id(chat), "", "", 0)
	storetest.Must(w.t, err)
	var out []string
	for _, m := range list {
		out = append(out, fmt.Sprintf("%s@%d", strings.TrimPrefix(m.User, w.prefix), m.Acked))
	}
	return strings.Join(out, " ")
}

func (w *world) wantMembers(chat, want string) {
	w.t.Helper()
	if got := w.members(chat); got != want {
		w.t.Fatalf("the members of %s are %q, want %q", chat, got, want)
	}
}

// keysOf lists the keys that hold anything of a chat, those of users' indexes
// aside. What is kept of requests ends by its own lifetime.
func (w *world) keysOf(chat string, members ...string) []string {
	w.t.Helper()
	c, name := w.db.Client(), w.id(chat)
	keys := []string{metaKey(name), logKey(name), membersKey(name), joinsKey(name)}
	for _, user := range members {
		keys = append(keys, ownKey(name, w.id(user)))
	}
	var found []string
	for _, key := range keys {
		n, err := c.Exists(w.ctx(), key).Result()
		storetest.Must(w.t, err)
		if n == 1 {
			found = append(found, key)
		}
	}
	if _, err := c.ZScore(w.ctx(), dueKey(bucketOf(name)), name).Result(); err == nil {
		found = append(found, dueKey(bucketOf(name)))
	}
	return found
}

func zed(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

// Places in a chat's meta, as part_chat.lua has them.
const (
	metaLast  = 1
	metaFirst = 2
	metaAt    = 3
)

// setMeta writes numbers into a chat's meta.
func (w *world) setMeta(chat string, numbers map[int]int64) {
	w.t.Helper()
	c, key := w.db.Client(), metaKey(w.id(chat))
	meta, err := c.Get(w.ctx(), key).Result()
	storetest.Must(w.t, err)
	fields := strings.Split(meta, " ")
	for i, n := range numbers {
		fields[i] = strconv.FormatInt(n, 10)
	}
	storetest.Must(w.t, c.Set(w.ctx(), key, strings.Join(fields, " "), 0).Err())
}

// The keys of a chat beside meta; the scripts make them from its name.
func logKey(chat string) string { return bucketTag(bucketOf(chat)) + "log:" + chat }

func joinsKey(chat string) string { return bucketTag(bucketOf(chat)) + "joins:" + chat }

func ownKey(chat, user string) string { return bucketTag(bucketOf(chat)) + "own:" + chat + "/" + user }
