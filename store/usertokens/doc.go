// Package usertokens decides which user calls: it checks user tokens, makes and revokes
// them, and gives tickets for clients that can send no header.
//
// A user token is a JWT. Its key is one of a JWKS file, which the customer's backend
// signs with, or one of fanfare's own (Ed25519), which are on record in SQL. The first is
// made by the first server, others by Rotate.
// Checking one asks neither SQL nor Redis: verified tokens are remembered by their hash
// until they end, 131,072 at most, and revocations are looked up in memory.
//
// Run polls one counter (record.VersionUserTokens) and reads the revocations that are
// new when it moved, so that a revoked token stops everywhere within 10 s as long as
// SQL can be reached. While it cannot, the latest known revocations stay in force.
//
// A ticket has 128 random bits and a MAC by a key of fanfare's own, so that made-up ones
// are refused here. Only its hash is in Redis:
//
//	key                    type    lifetime          what
//	ff:{ticket:<hash>}:of  string  60 s, taken once  the user, as JSON
package usertokens
