// Package sessions remembers who is logged in to the operators' console. A session belongs to an API
// key and ends an hour after its last use, or 12 hours after the login. Whether the key is still valid
// is for the caller to ask.
//
// The id of a session is 128 random bits and a MAC by one of fanfare's own keys, so that a made-up id is
// refused without asking Redis. Redis has only the hash of the id, so nobody who reads Redis can use the
// session:
//
//	key                     type    lifetime                      what
//	ff:{session:<hash>}:of  string  1 h, 12 h after the login     when it ends at the latest, and the key's id
package sessions
