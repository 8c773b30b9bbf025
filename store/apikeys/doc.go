// Package apikeys decides who may call: API keys, on record in SQL by the hash of
// their secret, and held in memory by every process.
//
// A secret is ff_<id>_<random>. The random part has 160 bits, so a plain
// SHA-256 of it is enough on record: there is nothing to guess.
//
// Authenticate never asks SQL: not for a known key and not for an unknown one.
// Run polls one counter (record.VersionKeys) and reads the keys when it moved,
// so that a new key works, and a revoked one stops, everywhere within 10 s as
// long as SQL can be reached. While it cannot, known keys go on working.
//
// When a key was last used is noted in memory and written by Run every 30 s
// and at its end.
//
// The package uses no Redis.
package apikeys
