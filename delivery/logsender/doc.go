// Package logsender is the sender of a server without credentials for a push service. It logs each
// notification and sends nothing.
package logsender
