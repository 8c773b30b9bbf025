package chat

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/store/storetest"
)

// modelWorld runs the same operations on the store and on the reference.
type modelWorld struct {
	*world
	ref          *reference
	random       *rand.Rand
	chats, users []string
	log          []string
}

// TestModel makes 2,000 random operations and compares, after each, what anybody
// can see with a small reference: every user's chats, positions, unread counts
// and what is pending, and the chat that was touched; each tenth time all chats. Limits are small, so that messages go by count, by
// age and because all have seen them. The embedded Redis, which takes several
// times as long, makes fewer.
func TestModel(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		runModel(newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), modelOptions), storetest.Sized(2000, 800))
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		runModel(newWorld(t, storetest.Open(t, "embedded"), modelOptions), 100)
	})
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		runModel(newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), lightOptions), storetest.Sized(2000, 800))
	})
}

// TestEveryScriptMayRunTwice sends every command twice, as a client does whose
// answer was lost. Nobody can see a difference.
func TestEveryScriptMayRunTwice(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"redis": storetest.Redis(t).URL(), "embedded": "embedded"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, storetest.Open(t, url), modelOptions)
			runModel(w.another(twice), 60)
			w = newWorld(t, storetest.Open(t, url), lightOptions)
			runModel(w.another(twice), 60)
		})
	}
}

var modelOptions = Options{MaxMessages: 9, MaxAge: 300 * time.Millisecond}

// lightOptions keep fewer bytes than messages. Nothing is pushed then, since messages that have to be
// pushed stay for a while.
var lightOptions = Options{MaxMessages: 9, MaxBytes: 27, MaxAge: 300 * time.Millisecond}

func runModel(w *world, steps int) {
	seed := rand.Uint64()
	m := &modelWorld{world: w, ref: newReference(w.o), random: rand.New(rand.NewPCG(seed, 1))}
	m.chats, m.users = m.ids("a", "b", "c"), m.ids("u1", "u2", "u3", "u4")
	defer func() {
		if w.t.Failed() {
			w.t.Logf("seed %d, the last operations:\n%s", seed, strings.Join(m.log[max(0, len(m.log)-12):], "\n"))
		}
	}()
	for n := range steps {
		touched := m.step()
		if n%10 == 0 {
			touched = m.chats
		}
		m.compare(touched)
	}
}

// now is the time in ms: Redis is on this machine and has the same clock.
func (m *modelWorld) now() int64 { return time.Now().UnixMilli() }

// step makes one operation between two readings of the clock. Where the limits
// tell these two apart, either outcome will do. It returns the chat.
func (m *modelWorld) step() []string {
	m.t.Helper()
	chat, user := m.chats[m.random.IntN(3)], m.users[m.random.IntN(4)]
	var got string
	var do func(r *reference, now int64) string
	begun := m.now()
	switch n := m.random.IntN(100); {
	case n < 8:
		got, do = m.create(chat, user)
	case n < 48:
		got, do = m.sendOne(chat, user)
	case n < 73:
		got, do = m.ackOne(chat, user)
	case n < 83:
		got, do = m.joinOne(chat, user)
	case n < 87:
		got, do = m.redactSome(chat, user)
	case n < 99 || m.random.IntN(2) == 0:
		storetest.Must(m.t, m.Leave(m.ctx(), chat, user))
		do = func(r *reference, _ int64) string { r.leave(chat, user); return "" }
	default:
		m.log = append(m.log, "wait")
		storetest.Eventually(m.t, testPatience, "all messages are old", func() bool { return m.now() > begun+m.ref.age })
		return m.chats
	}
	ended := m.now()
	m.log = append(m.log, fmt.Sprintf("%s %s -> %s", chat, user, got))
	sooner, later := m.ref.clone(), m.ref
	a, b := do(sooner, begun), do(later, ended)
	switch got {
	case b:
	case a:
		m.ref = sooner
	default:
		m.t.Fatalf("%s of %s: got %q, want %q", user, chat, got, b)
	}
	return []string{chat}
}

func (m *modelWorld) create(chat, user string) (string, func(*reference, int64) string) {
	members := []string{user, m.users[m.random.IntN(4)], user, m.users[m.random.IntN(4)]}
	c, _, err := m.Create(m.ctx(), &api.ChatRequest{ID: chat, Creator: user, Members: members[1:]}, api.Idempotency{}, false)
	epoch := ""
	if err == nil {
		epoch = c.Epoch
	}
	return fmt.Sprint("create ", api.CodeOf(err)), func(r *reference, _ int64) string {
		return fmt.Sprint("create ", r.create(chat, epoch, distinct(members[0], members[1:])))
	}
}

func (m *modelWorld) sendOne(chat, user string) (string, func(*reference, int64) string) {
	message, key := strings.Repeat("text", 1+m.random.IntN(3)), ""
	var once api.Idempotency
	if m.random.IntN(4) == 0 {
		key = fmt.Sprint("key", m.random.IntN(4))
		once = api.Idempotency{Scope: "test", Key: key}
		copy(once.Body[:], message)
	}
	sent, replayed, err := m.Send(m.ctx(), Outgoing{Chat: chat, Sender: user, Text: message, Once: once, Push: m.o.MaxBytes > 1000 && m.random.IntN(8) == 0})
	if err != nil {
		sent = &api.ChatMessageSent{}
	}
	return fmt.Sprint("send ", sent.ID, replayed, api.CodeOf(err)), func(r *reference, _ int64) string {
		id, replayed, code := r.send(chat, user, message, key, sent.SentAt.UnixMilli())
		return fmt.Sprint("send ", id, replayed, code)
	}
}

func (m *modelWorld) ackOne(chat, user string) (string, func(*reference, int64) string) {
	id := int64(m.random.IntN(4))
	if c := m.ref.chats[chat]; c != nil {
		id = max(0, c.last()-int64(m.random.IntN(7))+1)
	}
	acks, err := m.Ack(m.ctx(), user, map[string]int64{chat: id}, nil)
	acked := int64(0)
	if err == nil {
		acked = acks.Acked[chat]
	}
	return fmt.Sprint("ack ", acked, api.CodeOf(err)), func(r *reference, now int64) string {
		acked, code := r.ack(chat, user, id, now)
		return fmt.Sprint("ack ", acked, code)
	}
}

func (m *modelWorld) redactSome(chat, user string) (string, func(*reference, int64) string) {
	r := Redaction{From: 1, To: 1 + int64(m.random.IntN(3))}
	if c := m.ref.chats[chat]; c != nil {
		r.From = max(0, c.last()-int64(m.random.IntN(12)))
		r.To = r.From + int64(m.random.IntN(3))
	}
	switch m.random.IntN(3) {
	case 0:
		r.Sender = user
	case 1:
		r.Sender, r.Member = user, user
	}
	done, err := m.Redact(m.ctx(), chat, r)
	if err != nil {
		done = &Redacted{}
	}
	return fmt.Sprint("redact ", r, done.Visible, done.Others, api.CodeOf(err)), func(ref *reference, now int64) string {
		visible, others, code := ref.redact(chat, r, now)
		return fmt.Sprint("redact ", r, visible, others, code)
	}
}

func (m *modelWorld) joinOne(chat, user string) (string, func(*reference, int64) string) {
	fromStart := m.random.IntN(2) == 0
	member, joined, err := m.Join(m.ctx(), chat, user, fromStart)
	position := int64(-1) // depends on the time, so it is part of the outcome
	if err == nil {
		position = member.Acked
	}
	return fmt.Sprint("join ", fromStart, joined, api.CodeOf(err), position), func(r *reference, now int64) string {
		joined, code := r.join(chat, user, fromStart, now)
		position := int64(-1)
		if _, member, _ := r.find(chat, user); member != nil {
			position = member.acked
		}
		return fmt.Sprint("join ", fromStart, joined, code, position)
	}
}

// compare reads all users and some chats. A message that grows too old in the meantime
// costs another reading.
func (m *modelWorld) compare(chats []string) {
	m.t.Helper()
	for {
		begun := m.now()
		got := m.show(chats)
		want := m.ref.show(chats, m.users, begun)
		if got == want {
			return
		}
		if m.ref.show(chats, m.users, m.now()) == want {
			m.t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// show writes all that anybody can see, as the reference does.
func (m *modelWorld) show(chats []string) string {
	m.t.Helper()
	parts := make([]string, len(chats)+len(m.users))
	var g errgroup.Group
	for i, chat := range chats {
		g.Go(func() (err error) { parts[i], err = m.showChat(chat); return err })
	}
	for i, user := range m.users {
		g.Go(func() (err error) { parts[len(chats)+i], err = m.showUser(user); return err })
	}
	storetest.Must(m.t, g.Wait())
	return strings.Join(parts, "")
}

func (m *modelWorld) showChat(chat string) (string, error) {
	info, err := m.Chat(m.ctx(), chat, "")
	if api.CodeOf(err) == api.CodeNotFound {
		return chat + ": none\n", nil
	}
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s first=%d last=%d members=%d\n", chat, info.Epoch, info.FirstID, info.LastID, info.MemberCount)
	list, err := m.Members(m.ctx(), chat, "", "", 0)
	if err != nil {
		return "", err
	}
	for _, member := range list {
		fmt.Fprintf(&b, "  %s@%d\n", member.User, member.Acked)
	}
	messages, err := m.Messages(m.ctx(), chat, MessagesQuery{User: list[0].User})
	if err != nil {
		return "", err
	}
	for _, i := range messages.Items {
		fmt.Fprintf(&b, "  %d %s %s %s\n", i.ID, i.Sender, i.Text, i.SentAt.UTC().Format(time.TimeOnly+".000"))
	}
	return b.String(), nil
}

func (m *modelWorld) showUser(user string) (string, error) {
	var list []api.UserChat
	var pending *api.PendingChats
	var g errgroup.Group
	g.Go(func() (err error) { list, _, err = m.UserChats(m.ctx(), user, "", 0); return err })
	g.Go(func() (err error) { pending, err = m.Pending(m.ctx(), user, 0); return err })
	if err := g.Wait(); err != nil {
		return "", err
	}
	waiting := map[string]string{}
	for _, c := range pending.Chats {
		from, to := "none", "none"
		if n := len(c.Items); n > 0 {
			from, to = strconv.FormatInt(c.Items[0].ID, 10), strconv.FormatInt(c.Items[n-1].ID, 10)
		}
		waiting[c.ID] = fmt.Sprintf(" pending from %s to %s of %s, gap %v", from, to, c.Epoch, c.Gap)
	}
	var b strings.Builder
	for _, c := range list {
		fmt.Fprintf(&b, "%s in %s: %d/%d@%d%s\n", user, c.ID, c.Unread, c.LastID, c.Acked, waiting[c.ID])
	}
	return b.String(), nil
}
