// Package targeting decides which devices get a notification of an accepted event. It reads the
// audience page by page (audience.go). Then it reads the settings of the users, leaves out the
// actor, opt-outs and mutes, and hands the remaining devices to package delivery, which sends to them
// (resolve.go). Events that need SQL wait without holding up others (sql.go). Parts of large
// audiences wait while the windows of their apps are full (part_wait.go).
package targeting
