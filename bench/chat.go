package main

import (
	"context"
	"fmt"
	"net/http"
)

// putChat makes a chat with the members user-0 to user-(n-1).
func putChat(c *caller, id string, n int) error {
	names := []byte(`"user-0"`)
	for i := 1; i < n; i++ {
		names = fmt.Appendf(names, `,"user-%d"`, i)
	}
	body := fmt.Appendf(nil, `{"id":%q,"creator":"user-0","members":[%s]}`, id, names)
	return c.call(request(http.MethodPost, "/v1/chats", body), http.StatusCreated)
}

// message renders a message of user-0 to a chat, of about a hundred bytes.
func message(chat string) []byte {
	const text = "A message of about a hundred bytes, as people write them when they have something to say to others."
	return request(http.MethodPost, "/v1/chats/"+chat+"/messages", []byte(`{"sender":"user-0","text":"`+text+`"}`))
}

// sending is a load of messages from as many callers, each to a chat of its own.
func sending(addr string, chats int) *load {
	rendered := make([][]byte, chats)
	for i := range rendered {
		rendered[i] = message(fmt.Sprintf("chat-%d", i))
	}
	return &load{addrs: []string{addr}, connections: chats, want: http.StatusCreated, next: func(i int) []byte { return rendered[i] }}
}

// benchChat compares sends to 64 chats with a bare handler and one script.
func benchChat(ctx context.Context, w *world) (found, error) {
	p, err := w.pair(ctx, "FANFARE_ROLES=api")
	if err != nil {
		return found{}, err
	}
	err = each(ctx, p.server.addr, connections, func(c *caller, i int) error { return putChat(c, fmt.Sprintf("chat-%d", i), 2) })
	if err != nil {
		return found{}, err
	}
	m, err := w.turns(ctx,
		w.flood("ours", sending(p.server.addr, connections)),
		w.flood("bare", sending(p.bare.addr, connections)))
	return found{rows: []row{
		{"chat send, 64 chats, 64 callers", m.of("ours", "rate"), "/s", m.of("bare", "rate"), "bare chi handler, one EVALSHA", atLeast(.9)},
	}}, err
}
