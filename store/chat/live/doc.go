// Package live delivers messages of chats to connected members, over streams (server-sent events)
// and long polls. It uses store/chat, which does not know it.
//
//	key                         type    lifetime  what
//	ff:{live:<user>}:present    string  30 s      the process that holds a stream of the user
//
// The scripts of store/chat publish new messages on Store.MessageChannel, and changes of
// memberships on chat.MembershipChannel. A Hub subscribes to these for all streams of its process.
// On a Cluster it subscribes to the messages of a chat at the master that has the chat, because
// that master does not pass them on. Pub/sub may lose messages and is only a hint. A stream has its
// positions in its chats. It takes the messages after them from memory, and reads those that were
// not received from the log. Every 15 s, and after each new subscription, the last id in memory is
// compared with the log. A message that is redacted replaces the one in memory, and streams that have
// delivered it tell their clients.
//
// A user is present while a process has a stream of the user and the data that is written to it
// arrives. Users who are present get no pushes of chats.
package live
