package main

import (
	"fanfare/store/chat"
)

// openChat makes the group chat: its store, what is said just now, and the
// pushes to those who do not follow.
func (h *house) openChat() {
	c := h.config
	h.chats = chat.New(h.redis, chat.Options{MaxMessages: c.ChatMaxMessages, MaxAge: c.ChatMaxAge, Logger: h.log})
	h.liveChat = chat.NewLive(h.chats, h.redis, h.log)
	h.pusher = chat.NewPusher(h.chats, chat.PusherOptions{Post: h.events.AcceptNamed, Logger: h.log})
}

// chatLoops are what the chat needs in the background: what serves the requests
// of this process, and what finds the pushes that another one left.
func (h *house) chatLoops() []loop {
	var loops []loop
	if h.config.has(roleAPI) {
		loops = append(loops, loop{"live chat", h.liveChat.Run}, loop{"pushes of chats", h.pusher.Run})
	}
	if h.config.has(roleJobs) {
		loops = append(loops, loop{"sweep of chats", h.pusher.Sweep})
	}
	return loops
}
