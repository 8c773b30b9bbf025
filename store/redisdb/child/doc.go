// Package child runs a redis-server or valkey-server as a child of this process, so that fanfare
// keeps its data without a Redis that somebody else looks after. The server listens only on a Unix
// socket in its folder, asks for a random password, and writes an append-only file every second.
//
// The files of the folder, which only its owner can read:
//
//	lock            locked by the fanfare process that uses the folder, also by one whose Redis is in memory
//	redis.lock      locked by that process and by its server, whichever lives longer
//	redis.json      the server that was started last: pid, start time, socket and password
//	redis.version   the server that wrote the data last
//	redis.log       what the server said
//	redis.sock      the socket
//	appendonlydir/  the data; with a time behind its name it is older than what came after it (PutAside)
//
// The server inherits the lock of redis.lock. So two servers never work on one folder, whatever
// redis.json says and however fanfare ended. A server whose fanfare was killed lives on. The next
// Start ends it and takes its data over.
package child
