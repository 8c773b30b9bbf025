// Package migrations holds the SQL schema, one folder of numbered steps per
// dialect. Steps are only ever added; each one that MySQL runs is a single
// statement, because MySQL cannot undo half a step.
package migrations

import "embed"

// FS holds the folders mysql and sqlite.
//
//go:embed mysql/*.sql sqlite/*.sql
var FS embed.FS
