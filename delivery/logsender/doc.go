// Package logsender is the sender of a server without credentials of a push
// service: it logs what would be sent and sends nothing.
package logsender
