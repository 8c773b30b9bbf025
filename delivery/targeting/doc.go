// Package targeting decides which devices get a notification of an accepted event. It reads the
// audience page by page (audience.go). Then it reads the settings of the users, leaves out the
// actor, opt-outs and mutes, asks for the numbers that an event with a badge shows (badges.go), and hands the remaining devices
// to package delivery, which sends to them (resolve.go). Events that need SQL wait without holding up others (sql.go). Events
// to many devices and parts of large audiences wait while the windows of their apps are full (wait.go).
package targeting
