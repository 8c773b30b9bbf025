// Package apikeys decides which API keys may call. SQL has each key with the hash of its secret,
// and every process holds all keys in memory.
//
// A secret is ff_<id>_<random>. The random part has 160 bits and cannot be guessed, so a plain
// SHA-256 of it is enough on record.
//
// Authenticate never asks SQL, neither for a known key nor for an unknown one. Run polls one
// counter (record.VersionKeys) and reads the keys when it has changed. So every process accepts a
// new key, and refuses a revoked one, within 10 s as long as SQL can be reached. While SQL is away,
// known keys go on working.
//
// The time of a key's last use is kept in memory. Run writes it every 30 s and at its end.
//
// The package uses no Redis.
package apikeys
