package chat

import (
	"cmp"
	"embed"
	"log/slog"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

//go:embed lua/*.lua
var scripts embed.FS

// Options tunes a Store; the zero value works.
type Options struct {
	// MaxMessages is how many messages a chat keeps; default 10,000.
	MaxMessages int
	// MaxBytes is how many bytes of texts and data a chat keeps; default 8 MiB. It should have room
	// for a message.
	MaxBytes int64
	// MaxAge is how long a message is kept; default 30 days, at least 1 ms.
	MaxAge time.Duration
	// Tells reports whether facts of a type are told (facts.Switch.On); default: none are. Left is called when facts may have
	// been left in a bucket's FactOutbox; it takes no time. Default: the relay finds them.
	Tells func(typ string) bool
	Left  func(bucket int)
	// Logger receives repairs that failed and are tried again later; default: discarded.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.MaxMessages = cmp.Or(o.MaxMessages, api.DefaultChatMaxMessages)
	o.MaxBytes = cmp.Or(o.MaxBytes, api.DefaultChatMaxBytes)
	o.MaxAge = cmp.Or(o.MaxAge, api.DefaultChatMaxAge)
	o.MaxAge = max(o.MaxAge, time.Millisecond)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Tells == nil {
		o.Tells = func(string) bool { return false }
	}
	if o.Left == nil {
		o.Left = func(int) {}
	}
	return o
}

// Store is all chats. It is safe for concurrent use.
type Store struct {
	db *redisdb.DB
	o  Options
	// clustered says that a chat and its members' indexes may be on different masters. A master
	// that is away must not hold up calls that need only another one.
	clustered bool
	// run tells the scripts the run of the Redis server: serverRun, or a name for an embedded
	// Redis, which has only one run.
	run    string
	crowds []*redisdb.Crowd[*sending] // of senders: one, or on a Cluster one for each bucket

	createScript, readChatScript                     *redisdb.Script
	joinScript, leaveScript, listScript              *redisdb.Script
	sendScript, readScript, pendingScript, ackScript *redisdb.Script
	redactScript, typingScript                       *redisdb.Script
	putScript, dropScript, pageScript                *redisdb.Script
	claimScript, eraseScript                         *redisdb.Script
	pushDueScript, pushReadScript, pushDoneScript    *redisdb.Script
}

// serverRun lets a script ask its server for the server's run.
const serverRun = "*"

// New makes a store on redis. It starts nothing.
func New(db *redisdb.DB, o Options) *Store {
	get := func(name string) *redisdb.Script { return redisdb.MustScript(scripts, "lua/"+name+".lua") }
	run := serverRun
	if db.Embedded() {
		run = "embedded"
	}
	s := &Store{
		db: db, o: o.withDefaults(), clustered: db.Cluster(), run: run,
		createScript: get("chat_create"), readChatScript: get("chat_read"),
		joinScript: get("member_join"), leaveScript: get("member_leave"), listScript: get("member_list"),
		sendScript: get("message_send"), readScript: get("message_read"),
		pendingScript: get("message_pending"), ackScript: get("message_ack"),
		redactScript: get("message_redact"), typingScript: get("chat_typing"),
		putScript: get("index_put"), dropScript: get("index_drop"), pageScript: get("index_page"),
		claimScript: get("key_claim"), eraseScript: get("message_erase"),
		pushDueScript: get("push_due"), pushReadScript: get("push_read"), pushDoneScript: get("push_done"),
	}
	s.crowds = s.newCrowds()
	return s
}

// Statuses that several scripts share.
const (
	statusUnknown   = 0 // there is no such chat
	statusDone      = 1
	statusNoMember  = 4
	statusTooHigh   = 5
	statusReplayed  = 2
	statusKeyReused = 3

	statusOtherEpoch = 6
)

// refusal is the error for a status; nil if the status is not a refusal.
func refusal(status int64, chat, user string) error {
	switch status {
	case statusUnknown:
		return api.Errorf(api.CodeNotFound, "there is no chat %s", chat)
	case statusNoMember:
		return api.Errorf(api.CodeNotAMember, "%s is not a member of chat %s", user, chat)
	case statusKeyReused:
		return api.IdempotencyReused()
	}
	return nil
}
