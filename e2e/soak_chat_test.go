package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fanfare/api"
)

// room is a chat of the soak. Its archivist reads all messages and acknowledges only what it has
// read. Its phone gets a push of each message, and acknowledges nothing before. One user follows the
// streams of all rooms.
type room struct {
	s     *soak
	id    string
	phone string // the token of its phone
	epoch string
	kills int64 // kills of Redis before the archivist first read the epoch

	mu   sync.Mutex
	sent map[string]said // by text
	log  []string        // texts by id, as the archivist read them

	pushed int64 // the phone has the pushes of all messages up to this one
}

// said is the outcome of a message.
type said struct {
	outcome outcome
	id      int64
}

// chatTraffic has the sent messages, and the messages that arrived on the stream.
type chatTraffic struct {
	s     *soak
	rooms []*room

	mu    sync.Mutex
	heard map[string]int64 // by room: the last id on the stream
	last  string           // the id of the last event of the stream
}

const soakRooms = 4

func (s *soak) prepareChat() *chatTraffic {
	c := &chatTraffic{s: s, heard: map[string]int64{}}
	for n := range soakRooms {
		rm := &room{s: s, id: fmt.Sprint("room-", n), phone: deviceToken(5000 + n), sent: map[string]said{}}
		s.mustBe(201, nil, "PUT", fmt.Sprintf("/v1/users/phone-%d/devices/%s", n, rm.phone),
			map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "production"})
		var made api.Chat
		s.mustBe(201, &made, "POST", "/v1/chats", map[string]any{"id": rm.id, "creator": rm.user("archivist"), "members": rm.members()})
		rm.epoch = made.Epoch
		c.rooms = append(c.rooms, rm)
		for k := range 2 {
			s.work(rm.id+"say", k, time.Second, func(r *rand.Rand, i int) {
				rm.say(r, rm.user(fmt.Sprint("talker", r.IntN(2))), fmt.Sprintf("%s.%d.%d", rm.id, k, i))
			})
		}
		s.work(rm.id+"read", 0, time.Second, func(r *rand.Rand, _ int) { rm.read(r) })
		s.work(rm.id+"ack", 0, 2*time.Second, func(r *rand.Rand, _ int) {
			switch n := r.IntN(3); n {
			case 2:
				s.ackPending(r, rm.user("phone"), rm.pushedUpTo())
			default:
				s.ackPending(r, rm.user(fmt.Sprint("talker", n)), math.MaxInt64)
			}
		})
		s.work(rm.id+"visit", 0, 2*time.Second, func(r *rand.Rand, i int) { rm.visit(r, i) })
	}
	s.work("evening", 0, 3*time.Second, func(r *rand.Rand, i int) { s.evening(r, i) })
	s.workers.Go(c.follow)
	return c
}

// user is the name of a user of the room.
func (rm *room) user(role string) string { return strings.Replace(rm.id, "room", role, 1) }

// members are the users who never leave.
func (rm *room) members() []string {
	return []string{rm.user("archivist"), rm.user("phone"), rm.user("talker0"), rm.user("talker1"), "follower"}
}

// say sends a message, mostly until it is answered, sometimes only once.
func (rm *room) say(r *rand.Rand, sender, text string) {
	call := rm.s.insist
	if r.IntN(10) == 0 {
		call = rm.s.once
	}
	post := func(call func(*rand.Rand, any, string, string, any, ...string) reply) (reply, int64) {
		var m api.ChatMessageSent
		got := call(r, &m, "POST", "/v1/chats/"+rm.id+"/messages", map[string]string{"sender": sender, "text": text}, "Idempotency-Key", text)
		return got, m.ID
	}
	got, id := post(call)
	if got.outcome == answered && got.status != 201 {
		rm.s.failf("%s says %s: %d %s", sender, text, got.status, got.text)
	}
	if got.outcome == answered {
		rm.s.count("messages accepted", 1)
	}
	rm.mu.Lock()
	rm.sent[text] = said{got.outcome, id}
	rm.mu.Unlock()
	if got.outcome == answered && r.IntN(10) == 0 {
		if again, second := post(rm.s.insist); again.status != 201 || second != id {
			rm.s.failf("%s got id %d and, said again, %d %d", text, id, again.status, second)
		}
	}
}

// read lets the archivist read further and, mostly, acknowledge.
func (rm *room) read(r *rand.Rand) (more bool) {
	var got api.ChatMessages
	after, kills := len(rm.log), rm.s.redisKills.Load() // only the archivist's worker writes the log
	path := fmt.Sprintf("/v1/chats/%s/messages?user=%s&after=%d&limit=%d&epoch=%s", rm.id, rm.user("archivist"), after, 1+r.IntN(50), rm.epoch)
	if !rm.s.want(r, &got, []int{200}, "GET", path, nil) {
		return false
	}
	// Redis restarts with all of its data, so that there is another epoch and no gap. Only a reader who
	// is two runs of Redis behind is told of a gap in any case (C7).
	if behind := rm.s.redisKills.Load() - rm.kills; got.Gap && behind < 2 {
		rm.s.failf("%s after %d: a gap after %d kills of Redis, epoch %s, was %s; ids %d to %d", rm.id, after, behind, got.Epoch, rm.epoch, got.FirstID, got.LastID)
	}
	if got.Epoch != rm.epoch { // which stays until the first message of another run
		rm.epoch, rm.kills = got.Epoch, kills
	}
	for _, m := range got.Items {
		if m.ID != int64(len(rm.log))+1 {
			rm.s.failf("%s: id %d follows %d", rm.id, m.ID, len(rm.log))
		}
		rm.log = append(rm.log, m.Text)
	}
	if r.IntN(3) > 0 && len(rm.log) > 0 {
		rm.s.ack(r, rm.user("archivist"), map[string]int64{rm.id: int64(len(rm.log))})
	}
	return int64(len(rm.log)) < got.LastID
}

func (s *soak) ack(r *rand.Rand, user string, acks map[string]int64) {
	var got api.Acks
	if s.want(r, &got, []int{200}, "POST", "/v1/users/"+user+"/messages/ack", map[string]any{"acks": acks}) {
		for chat, id := range acks {
			if got.Acked[chat] < id && got.Errors[chat].Code != api.CodeUnavailable && got.Errors[chat].Code != api.CodeUnknownOutcome {
				s.failf("%s acks %d of %s: %+v", user, id, chat, got)
			}
		}
	}
}

// pushedUpTo is the last message up to which the phone got a push of each. A phone that acknowledges more might
// get none of what every member has acknowledged before its push was made (C14).
func (rm *room) pushedUpTo() int64 {
	got := map[int64]bool{}
	for _, at := range rm.s.slots {
		for _, req := range at.apns.Of(rm.phone) {
			var payload struct {
				Data struct {
					Message int64 `json:"message_id,string"`
				}
			}
			if err := json.Unmarshal(req.Payload, &payload); err != nil {
				rm.s.failf("payload %s: %v", req.Payload, err)
			}
			got[payload.Data.Message] = got[payload.Data.Message] || req.Taken
		}
	}
	for got[rm.pushed+1] {
		rm.pushed++
	}
	return rm.pushed
}

// ackPending reads pending messages, waiting a moment at times, and acknowledges them, but none after upTo.
func (s *soak) ackPending(r *rand.Rand, user string, upTo int64) {
	var got api.PendingChats
	if !s.want(r, &got, []int{200}, "GET", fmt.Sprintf("/v1/users/%s/messages/pending?wait_ms=%d", user, r.IntN(2)*500), nil) {
		return
	}
	acks := map[string]int64{}
	for _, chat := range got.Chats {
		if chat.Gap {
			s.failf("%s has a gap in %s", user, chat.ID)
		}
		for i, m := range chat.Items {
			if i > 0 && m.ID != chat.Items[i-1].ID+1 {
				s.failf("%s: pending of %s: %d follows %d", user, chat.ID, m.ID, chat.Items[i-1].ID)
			}
			if m.ID <= upTo {
				acks[chat.ID] = m.ID
			}
		}
	}
	if len(acks) > 0 {
		s.ack(r, user, acks)
	}
}

// visit joins, perhaps reads and says something, and leaves.
func (rm *room) visit(r *rand.Rand, i int) {
	visitor := rm.user("visitor")
	path := "/v1/chats/" + rm.id + "/members/" + visitor
	if !rm.s.want(r, nil, []int{200, 201}, "PUT", path, map[string]string{"from": []string{"now", "start"}[r.IntN(2)]}) {
		return
	}
	switch r.IntN(3) {
	case 0:
		rm.s.want(r, nil, []int{200}, "GET", "/v1/chats/"+rm.id+"/messages?user="+visitor, nil)
	case 1:
		rm.say(r, visitor, fmt.Sprintf("%s.visit.%d", rm.id, i))
	}
	rm.s.want(r, nil, []int{204}, "DELETE", path, nil)
}

// evening is a chat that is made, used and left by all members. Its ids are 1, 2, 3, and then it is
// deleted.
func (s *soak) evening(r *rand.Rand, i int) {
	id, members := fmt.Sprint("evening-", i), []string{"ann", "bob"}
	if !s.want(r, nil, []int{201}, "POST", "/v1/chats", map[string]any{"id": id, "creator": "ann", "members": members}, "Idempotency-Key", id) {
		return
	}
	for n := range r.Int64N(4) {
		var m api.ChatMessageSent
		body := map[string]string{"sender": members[r.IntN(2)], "text": fmt.Sprint(n)}
		if s.want(r, &m, []int{201}, "POST", "/v1/chats/"+id+"/messages", body, "Idempotency-Key", fmt.Sprint(id, n)) && m.ID != n+1 {
			s.failf("%s: the %d. message has id %d", id, n+1, m.ID)
		}
	}
	for _, user := range members {
		s.want(r, nil, []int{204}, "DELETE", "/v1/chats/"+id+"/members/"+user, nil)
	}
	s.want(r, nil, []int{404}, "GET", "/v1/chats/"+id, nil)
	s.count("chats made and left by all", 1)
}

// follow reads the follower's stream, for a while from each server, and sometimes acknowledges what
// it received.
func (c *chatTraffic) follow() {
	r := rand.New(rand.NewPCG(c.s.seed, hashOf("follow")))
	for c.s.traffic.Err() == nil {
		c.listen(c.s.traffic, r, time.Second+between(r, 30*time.Second))
		if r.IntN(3) == 0 {
			c.mu.Lock()
			acks := make(map[string]int64, len(c.heard))
			for chat, id := range c.heard {
				acks[chat] = id
			}
			c.mu.Unlock()
			if len(acks) > 0 {
				c.s.ack(r, "follower", acks)
			}
		}
		<-time.After(100 * time.Millisecond)
	}
}

// listen reads a stream for a given time, or until it ends.
func (c *chatTraffic) listen(ctx context.Context, r *rand.Rand, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	servers := c.s.all()
	req, err := http.NewRequestWithContext(ctx, "GET", servers[r.IntN(len(servers))].base+"/v1/users/follower/messages/stream", nil)
	if err != nil {
		c.s.failf("%v", err)
		return
	}
	if c.last != "" {
		req.Header.Set("Last-Event-ID", c.last)
	}
	streams := &http.Transport{}
	defer streams.CloseIdleConnections()
	resp, err := streams.RoundTrip(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		if resp.StatusCode != 503 {
			c.s.failf("the stream is answered %s", resp.Status)
		}
		return
	}
	c.s.count("streams opened", 1)
	c.hear(bufio.NewScanner(resp.Body))
}

// hear reads events. Each message comes once and in the order of its chat, and there is no gap. A
// message counts as received when its event is complete.
func (c *chatTraffic) hear(lines *bufio.Scanner) {
	var kind, data, id string
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			data = value
		case "":
			c.event(kind, data)
			if id != "" {
				c.last = id
			}
			kind, data, id = "", "", ""
		}
	}
}

func (c *chatTraffic) event(kind, data string) {
	switch kind {
	case "message":
		var m api.StreamMessage
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			c.s.failf("%v in %s", err, data)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if m.ID != c.heard[m.Chat]+1 {
			c.s.failf("the stream has %d of %s after %d", m.ID, m.Chat, c.heard[m.Chat])
		}
		c.heard[m.Chat] = m.ID
	case "gap":
		c.s.failf("the stream has a gap: %s", data)
	}
}

// check compares the sent messages with those that the archivists read, the follower received and
// the phones got.
func (c *chatTraffic) check() {
	r := rand.New(rand.NewPCG(c.s.seed, 2))
	for _, rm := range c.rooms {
		for rm.read(r) {
		}
		rm.check()
	}
	c.s.eventually(time.Minute, "the follower has heard everything", func() bool {
		c.listen(context.Background(), r, 2*time.Second)
		return !slices.ContainsFunc(c.rooms, func(rm *room) bool { return c.heard[rm.id] != int64(len(rm.log)) })
	})
	var missing []string
	ok := c.s.eventually(2*time.Minute, "every message has its push", func() bool {
		missing = nil
		there := c.s.sendings()
		for _, rm := range c.rooms {
			for i := range rm.log {
				if key := messageKey(rm.id, strconv.Itoa(i+1), rm.phone); len(taken(there[key])) == 0 {
					missing = append(missing, key)
				}
			}
		}
		return len(missing) == 0
	})
	if !ok {
		c.s.failf("%d pushes of messages are missing, such as %v", len(missing), missing[:min(5, len(missing))])
	}
}

// check finds every accepted message once, under its id, and none that was refused.
func (rm *room) check() {
	var chat api.ChatInfo
	rm.s.mustBe(200, &chat, "GET", "/v1/chats/"+rm.id, nil)
	if chat.LastID != int64(len(rm.log)) || chat.Epoch != rm.epoch {
		rm.s.failf("%s: last id %d, the archivist read %d; epoch %s, was %s", rm.id, chat.LastID, len(rm.log), chat.Epoch, rm.epoch)
	}
	ids := map[string]int64{}
	for i, text := range rm.log {
		m, known := rm.sent[text]
		switch {
		case ids[text] != 0:
			rm.s.failf("%s: %q is there as %d and as %d", rm.id, text, ids[text], i+1)
		case !known || m.outcome == nothing:
			rm.s.failf("%s: %q is there as %d, and was answered as not accepted", rm.id, text, i+1)
		}
		ids[text] = int64(i) + 1
	}
	for text, m := range rm.sent {
		if m.outcome == answered && ids[text] != m.id {
			rm.s.failf("%s: %q was accepted as %d and is there as %d", rm.id, text, m.id, ids[text])
		}
	}
	var members api.ChatMemberList
	rm.s.mustBe(200, &members, "GET", "/v1/chats/"+rm.id+"/members", nil)
	var names []string
	for _, m := range members.Items {
		names = append(names, m.User)
	}
	slices.Sort(names)
	want := rm.members()
	slices.Sort(want)
	if !slices.Equal(names, want) {
		rm.s.failf("%s has the members %v, not %v", rm.id, names, want)
	}
}
