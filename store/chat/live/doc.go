// Package live delivers what is said in chats to those who are connected: by
// streams (server-sent events) and long polls. It stands above store/chat, which
// knows nothing of it.
//
//	key                         type    lifetime  what
//	ff:{live:<user>}:present    string  30 s      the process that holds a stream of the user
//
// What is said just now is published by the scripts of store/chat, on
// Store.MessageChannel and chat.MembershipChannel. A Hub subscribes to them for
// all streams of its process, on a Cluster to the messages of a chat at the master that
// has it, which tells nobody else. Pub/sub may lose messages, so that it is only a
// hint: a stream goes by the positions of its chats, takes from memory what
// follows them, and reads the log for whatever was not received. Every 15 s, and
// after each new subscription, the last id of a chat is compared with that of the log.
//
// A user is present while a process holds a stream of his and what is written to
// it arrives; targeting sends no pushes of chats to him then.
package live
