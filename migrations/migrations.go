// Package migrations holds the SQL schema: one folder of numbered steps for each dialect. What a step
// does is never changed, and there are no steps back: an earlier program runs on a later schema. Each
// statement may be repeated, or is the only one of its step, because MySQL cannot undo half a step.
// Statements of several lines are marked with their begin and end, because goose needs
// 4 MiB of memory for each line in which it searches for the end.
package migrations

import "embed"

// FS holds the folders mysql, postgres and sqlite.
//
//go:embed mysql/*.sql postgres/*.sql sqlite/*.sql
var FS embed.FS
