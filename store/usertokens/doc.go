// Package usertokens decides which user is calling. It checks, makes and revokes user tokens, and
// makes tickets for clients that cannot send headers.
//
// A user token is a JWT. It is signed with a key of a JWKS file, which the customer's backend uses,
// or with one of fanfare's own keys (Ed25519), which are on record in SQL. The first server makes
// the first of these keys, and Rotate makes others. Checking a token needs neither SQL nor Redis:
// up to 131,072 verified tokens are remembered by their hash until they end, and revocations are in
// memory.
//
// Run polls one counter (record.VersionUserTokens) and reads the new revocations when it has
// changed. So every process refuses a revoked token within 10 s as long as SQL can be reached.
// While SQL is away, the last known revocations apply. A token that fanfare made also ends with the API
// key that asked for it, as package apikeys tells.
//
// A ticket has 128 random bits and a MAC by one of fanfare's own keys, so that made-up tickets are
// refused without asking Redis. Redis has only the hash of a ticket:
//
//	key                    type    lifetime          what
//	ff:{ticket:<hash>}:of  string  60 s, taken once  the user, as JSON
package usertokens
