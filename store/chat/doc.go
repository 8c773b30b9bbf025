// Package chat is group chat for people who come and go: members join and
// leave, nobody has to be connected, and nothing is lost while it is kept. Redis
// holds it all.
//
//	key                              type    lifetime              what
//	ff:{chat:<b>}:meta:<chat>        string  the chat's            epoch, last id and more: lua/part_chat.lua
//	ff:{chat:<b>}:log:<chat>         list    the oldest age kept   the messages in a row, the last one's id is l
//	ff:{chat:<b>}:members:<chat>     zset    the chat's            user -> acknowledged up to
//	ff:{chat:<b>}:joins:<chat>       zset    the chat's            "<user> <stamp>", by name
//	ff:{chat:<b>}:own:<chat>/<user>  zset    the oldest age kept   the user's own messages above his position
//	ff:{chat:<b>}:once:<hash>        string  24 h, or 15 s         what an Idempotency-Key did, or a call that sent or left
//	ff:{chat:<b>}:due                zset    while pushes are due  chat -> since when, in ms
//	ff:{chats:<user>}:index          zset    the user's last chat  chat -> stamp of the join, a time in us
//	ff:{chatkey:<hash>}:claim        string  24 h                  the body for which a key of POST /v1/chats is held
//	ff:{chatsweep}:turn              string  12 s                  the process that sweeps the pushes that were left
//
// <b> is one of 256 buckets, chosen by the chat's id: all that one script
// touches is in one slot, and a sweeper finds every chat with pushes due by
// reading 256 keys. The meta has the run of the server that added the last message: in
// another run, which may have lost messages and gives their ids again, the chat gets
// another epoch, "<the first one>.<run>". Up to the id that this run found, which the meta
// has together with the epoch before, the messages are the same in both.
//
// A chat lives until its last member leaves; then every key of it goes, and the
// same id made again is another chat, with another epoch. Only the log of a
// silent chat ends by itself. Positions, the last id and the epoch stay, so ids
// never start again while a chat lives.
//
// Messages are removed from the beginning of the log only. So it has every id from
// l + 1 - length to l, and the number of messages between two ids is their difference.
// Messages that every member has acknowledged are removed at once. Messages over the
// limits are hidden at once, and later calls remove them a few at a time. Messages that
// still have to be pushed stay until then, unless the log is more than twice as long as
// it may be.
//
// A user's unread messages are those above his position less his own above it:
// two differences and a count, computed when asked for. His own are the messages
// that he sent in the present membership; leaving forgets which they were.
//
// The index of a user only lists his chats; the memberships are in the chats. Joining
// writes the index, then the membership; leaving does it the other way round. So a crash
// in between leaves an entry too many, never one too few. The stamp says which join made
// an entry: leaving removes the entry with the stamp of the join that it ended, and
// reading removes an entry of a chat that the user is not in if it is older than 60 s
// and still the same. Every call by a member reads, in the same round trip, whether his
// index has the chat, and adds a missing entry.
//
// The script that stores a message publishes it whole on MessageChannel, and
// those that change memberships say so on MembershipChannel. Package live, above
// this one, serves streams and long polls from that; of this package it needs
// the channels, DecodePublished, Heads, Positions and ReadMany. Messages are
// pushed to phones by the Pusher of the process that took them; the key due
// lists the chats with pushes due, so that a sweeper finds those that a crash left.
package chat
