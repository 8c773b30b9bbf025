// Package migrations holds the SQL schema, one folder of numbered steps per
// dialect. Steps are only ever added; each one that MySQL runs is a single
// statement, because MySQL cannot undo half a step. What has several lines is marked
// with its begin and end: looking for the end takes goose 4 MiB of memory a line, which
// the race detector has it take anew.
package migrations

import "embed"

// FS holds the folders mysql and sqlite.
//
//go:embed mysql/*.sql sqlite/*.sql
var FS embed.FS
