// Package targeting finds out which users are told of an accepted event. It reads the audience
// page by page (audience.go) and what its users want, leaves out the actor, opt-outs and
// mutes, and makes one notification for each device that remains (write.go). Notifications
// of few devices are handed to package delivery, which sends them at once; others go into
// the queue of notifications. What needs SQL waits beside the rest (sql.go), and parts of
// large audiences wait while their apps have no room (room.go).
package targeting
