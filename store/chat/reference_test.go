package chat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/api"
)

// reference is group chat as one would write it first, for one thread: every
// message ever sent, and counting by visiting each. Time is given.
type reference struct {
	most  int64
	bytes int   // of the texts that a chat keeps
	age   int64 // ms
	chats map[string]*refChat
	joins int64
}

type refChat struct {
	epoch    string
	messages []refMessage // all that were ever sent; the first has id 1
	members  map[string]*refMember
	seen     int64 // up to here every member had acknowledged
	records  map[string]int64
}

type refMessage struct {
	sender, text string
	at           int64
	redacted     bool
}

// refMember knows the last message before the join: only what came later is his own.
type refMember struct{ acked, joined, before int64 }

// owns reports whether a member sent a message in his present membership.
func (c *refChat) owns(user string, id int64) bool {
	return id > c.members[user].before && c.messages[id-1].sender == user
}

func newReference(o Options) *reference {
	o = o.withDefaults()
	return &reference{most: int64(o.MaxMessages), bytes: int(o.MaxBytes), age: o.MaxAge.Milliseconds(), chats: map[string]*refChat{}}
}

func (r *reference) clone() *reference {
	out := *r
	out.chats = map[string]*refChat{}
	for id, c := range r.chats {
		twin := *c
		twin.messages, twin.records = slices.Clone(c.messages), maps.Clone(c.records)
		twin.members = map[string]*refMember{}
		for user, m := range c.members {
			member := *m
			twin.members[user] = &member
		}
		out.chats[id] = &twin
	}
	return &out
}

func (c *refChat) last() int64 { return int64(len(c.messages)) }

// first is the first id that is kept at a time.
func (r *reference) first(c *refChat, now int64) int64 {
	first := max(c.seen+1, c.last()+1-r.most)
	for first <= c.last() && c.messages[first-1].at <= now-r.age {
		first++
	}
	return first
}

func (r *reference) unread(c *refChat, user string, now int64) (n int64) {
	for id := max(r.first(c, now), c.members[user].acked+1); id <= c.last(); id++ {
		if !c.owns(user, id) {
			n++
		}
	}
	return n
}

// trim forgets what all have seen.
func (c *refChat) trim() {
	lowest := c.last()
	for _, m := range c.members {
		lowest = min(lowest, m.acked)
	}
	c.seen = max(c.seen, lowest)
}

func (r *reference) create(chat, epoch string, members []string) api.Code {
	if r.chats[chat] != nil {
		return api.CodeConflict
	}
	c := &refChat{epoch: epoch, members: map[string]*refMember{}, records: map[string]int64{}}
	for _, user := range members {
		if c.members[user] == nil {
			r.joins++
			c.members[user] = &refMember{joined: r.joins}
		}
	}
	r.chats[chat] = c
	return ""
}

// find is the chat, and the code of a refusal.
func (r *reference) find(chat, user string) (*refChat, *refMember, api.Code) {
	c := r.chats[chat]
	if c == nil {
		return nil, nil, api.CodeNotFound
	}
	if c.members[user] == nil {
		return c, nil, api.CodeNotAMember
	}
	return c, c.members[user], ""
}

func (r *reference) send(chat, user, text, key string, at int64) (id int64, replayed bool, code api.Code) {
	c, m, code := r.find(chat, user)
	if c == nil {
		return 0, false, code
	}
	if id := c.records[user+" "+key]; key != "" && id != 0 {
		if c.messages[id-1].text != text {
			return 0, false, api.CodeIdempotencyReused
		}
		return id, true, ""
	}
	if m == nil {
		return 0, false, code
	}
	if m.acked == c.last() {
		m.acked++
	}
	c.messages = append(c.messages, refMessage{sender: user, text: text, at: at})
	if key != "" {
		c.records[user+" "+key] = c.last()
	}
	c.trim()
	r.lighten(c, at)
	return c.last(), false, ""
}

// lighten forgets the oldest messages that readers see while their texts have too many bytes.
func (r *reference) lighten(c *refChat, now int64) {
	bytes := 0
	for id := c.last(); id >= r.first(c, now); id-- {
		if m := c.messages[id-1]; !m.redacted {
			bytes += len(m.text)
		}
		if bytes > r.bytes {
			c.seen = id
			return
		}
	}
}

func (r *reference) ack(chat, user string, id, now int64) (int64, api.Code) {
	c, m, code := r.find(chat, user)
	if m == nil {
		return 0, code
	}
	if id > c.last() {
		return 0, api.CodeValidation
	}
	if id > m.acked {
		m.acked = id
		for m.acked+1 >= r.first(c, now) && m.acked < c.last() && c.owns(user, m.acked+1) {
			m.acked++
		}
		c.trim()
	}
	return m.acked, ""
}

func (r *reference) redact(chat string, which Redaction, now int64) (visible, others int, code api.Code) {
	c, member, code := r.find(chat, which.Member)
	if c == nil || which.Member != "" && member == nil {
		return 0, 0, code
	}
	for id := max(which.From, r.first(c, now)); id <= min(which.To, c.last()); id++ {
		if which.Sender != "" && c.messages[id-1].sender != which.Sender {
			others++
			continue
		}
		c.messages[id-1].redacted = true
		visible++
	}
	return visible, others, ""
}

func (r *reference) join(chat, user string, fromStart bool, now int64) (bool, api.Code) {
	c, m, _ := r.find(chat, user)
	if c == nil {
		return false, api.CodeNotFound
	}
	if m != nil {
		return false, ""
	}
	r.joins++
	m = &refMember{acked: c.last(), joined: r.joins, before: c.last()}
	if fromStart {
		m.acked = r.first(c, now) - 1
	}
	c.members[user] = m
	return true, ""
}

func (r *reference) leave(chat, user string) {
	c, m, _ := r.find(chat, user)
	if m == nil {
		return
	}
	delete(c.members, user)
	if len(c.members) == 0 {
		delete(r.chats, chat)
		return
	}
	c.trim()
}

// show writes all that anybody can see at a time.
func (r *reference) show(chats, users []string, now int64) string {
	var b strings.Builder
	for _, id := range chats {
		c := r.chats[id]
		if c == nil {
			fmt.Fprintf(&b, "%s: none\n", id)
			continue
		}
		fmt.Fprintf(&b, "%s: %s first=%d last=%d members=%d\n", id, c.epoch, r.first(c, now), c.last(), len(c.members))
		for _, user := range slices.Sorted(maps.Keys(c.members)) {
			fmt.Fprintf(&b, "  %s@%d\n", user, c.members[user].acked)
		}
		for i := r.first(c, now); i <= c.last(); i++ {
			m := c.messages[i-1]
			if m.redacted {
				m.text = ""
			}
			fmt.Fprintf(&b, "  %d %s %s %s\n", i, m.sender, m.text, time.UnixMilli(m.at).UTC().Format(time.TimeOnly+".000"))
		}
	}
	for _, user := range users {
		r.showUser(&b, user, now)
	}
	return b.String()
}

// showUser writes a user's chats in the order of joining, and what is pending.
func (r *reference) showUser(b *strings.Builder, user string, now int64) {
	var in []string
	for id, c := range r.chats {
		if c.members[user] != nil {
			in = append(in, id)
		}
	}
	slices.SortFunc(in, func(x, y string) int { return int(r.chats[x].members[user].joined - r.chats[y].members[user].joined) })
	for _, id := range in {
		c := r.chats[id]
		acked, unread, first := c.members[user].acked, r.unread(c, user, now), r.first(c, now)
		fmt.Fprintf(b, "%s in %s: %d/%d@%d", user, id, unread, c.last(), acked)
		if unread > 0 {
			fmt.Fprintf(b, " pending from %d to %d of %s, gap %v", max(first, acked+1), c.last(), c.epoch, first > acked+1)
		}
		fmt.Fprintln(b)
	}
}
