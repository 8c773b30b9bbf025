// Package chat is group chat whose members come and go. Nobody has to be connected, and no message
// is lost as long as it is kept. Everything is in Redis.
//
//	key                              type    lifetime              what
//	ff:{chat:<b>}:meta:<chat>        string  the chat's            epoch, last id and more: lua/part_chat.lua
//	ff:{chat:<b>}:log:<chat>         list    the oldest age kept   the messages in a row, the last one's id is l
//	ff:{chat:<b>}:members:<chat>     zset    the chat's            user -> acknowledged up to
//	ff:{chat:<b>}:joins:<chat>       zset    the chat's            "<user> <stamp>", by name
//	ff:{chat:<b>}:own:<chat>/<user>  zset    the oldest age kept   the user's own messages above the position
//	ff:{chat:<b>}:once:<hash>        string  24 h, or 15 s         the result of an Idempotency-Key, or of a call that sent or left
//	ff:{chat:<b>}:due                zset    while pushes are due  chat -> since when, in ms
//	ff:{chat:<b>}:facts:out          stream  until they are moved  facts about messages (store/facts)
//	ff:{chats:<user>}:index          zset    the user's last chat  chat -> stamp of the join, a time in us
//	ff:{chatkey:<hash>}:claim        string  24 h                  the body for which a key of POST /v1/chats is held
//	ff:{chatsweep}:turn              string  12 s                  the process that sweeps pushes that were left behind
//
// <b> is one of 256 buckets, chosen by the chat's id. So all keys of one script are in one slot,
// and a sweeper finds every chat with pushes due by reading 256 keys. The meta has the run of the
// Redis server that added the last message. Another run may have lost messages and uses their ids
// again. Then the chat gets another epoch, "<the first one>.<run>". The meta also has the previous
// epoch and the last id that this run found: up to that id the messages are the same in both
// epochs.
//
// A chat exists until its last member leaves. Then all its keys are deleted. A chat that is made
// again under the same id is a new one, with another epoch. Only the log of a silent chat expires.
// Positions, the last id and the epoch stay, so that ids never begin again while a chat exists.
//
// Messages are removed from the beginning of the log only. So it has every id from
// l + 1 - length to l, and the number of messages between two ids is their difference.
// Messages that every member has acknowledged are removed at once. Messages that are too many or
// too old are hidden at once, and later calls remove them a few at a time. Messages that are over
// the bytes are seen until they are removed, a few for each message that comes. Messages that
// still have to be pushed stay until then, unless the log is more than twice as long or as large
// as it may be. The meta counts the bytes of all texts and data in the log; a script that changes
// the log changes that number with it.
//
// A user's unread messages are the messages above the position, without the user's own. Their
// number is computed on each read from two differences and a count. A user's own messages are those
// sent in the present membership; after leaving they are no longer known as the user's own.
//
// The index of a user only lists the user's chats; the memberships are in the chats. Joining first
// writes the index and then the membership, and leaving does it in the opposite order. So a crash
// in between may leave an additional entry, but never a missing one. The stamp of an entry says
// which join wrote it. Leaving removes the entry with the stamp of the join that it ended. Reading
// removes an entry of a chat without membership if the entry is older than 60 s and has not
// changed. Every call by a member reads in the same round trip whether the member's index has the
// chat, and adds a missing entry.
//
// A message can be redacted: its entry in the log then has no text and no data any more. Its id stays,
// and so nothing that counts or compares ids changes.
//
// The script that stores a message publishes the whole message on MessageChannel. The script that
// redacts a message publishes it again without its text. Scripts that change memberships publish the
// change on MembershipChannel. Package live serves streams and long polls from these. It uses the
// channels, DecodePublished, Heads, Positions and ReadMany of this package. Messages are pushed to
// phones by the Pusher of the process that took them. The key due lists the chats with pushes due, so
// that a sweeper finds pushes that a crash left behind.
package chat
