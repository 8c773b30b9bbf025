package app

import (
	"fanfare/store/chat"
	"fanfare/store/chat/live"
)

// openChat makes the group chat: its store, its streams, and the pushes to members without a
// stream.
func (a *app) openChat() {
	c := a.config
	a.chats = chat.New(a.redis, chat.Options{MaxMessages: c.ChatMaxMessages, MaxBytes: c.ChatMaxBytes, MaxAge: c.ChatMaxAge,
		Tells: a.tells.On, Left: func(bucket int) { a.facts.Left(chatOutbox(bucket)) }, Logger: a.log})
	a.streams = live.New(a.chats, a.redis, a.log)
	a.pusher = chat.NewPusher(a.chats, chat.PusherOptions{Post: a.events.AcceptNamed, Logger: a.log})
}

// chatLoops are the background loops of the chat: the loops that serve this process's requests,
// and the sweep for pushes that another process left behind.
func (a *app) chatLoops() []loop {
	var loops []loop
	if a.config.has(roleAPI) {
		loops = append(loops, loop{"chat streams", a.streams.Run}, loop{"pushes of chats", a.pusher.Run})
	}
	if a.config.has(roleJobs) {
		loops = append(loops, loop{"sweep of chats", a.pusher.Sweep})
	}
	return loops
}
