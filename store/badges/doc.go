// Package badges keeps the number on the icon of a user's app. It is in Redis alone: a Redis that has lost its data begins at
// 0 again, and then the badge has no version, or another time since which it is there.
//
//	key                        type    lifetime          what
//	ff:{badge:<user>}:count    string  a year unchanged  five numbers with spaces between: the badge; its version, in us; since
//	                                                     when it is there; when the newest of what changed it came; when it was
//	                                                     shown without a text, or is to be shown. Times are in ms
//	ff:{badge:<user>}:names:0  hash    see below         what changed the badge in an even period: for an event's id the number,
//	                                                     for a request the whole answer and a digest of its body
//	ff:{badge:<user>}:names:1  hash                      the same in an odd period
//	ff:{badge:<user>}:sent:0   hash    two minutes       the same of requests without an Idempotency-Key, in an even minute
//	ff:{badge:<user>}:sent:1   hash                      the same in an odd minute
//
// What changes a badge has a name: an event its id, a request a digest of its Idempotency-Key, or else a random name, because
// the client may send a command twice, within seconds. Each name changes the badge once. A period is an hour longer than an event may be tried
// (FANFARE_MAX_AGE), and at least 25 h. Names are kept until the end of the period after their own, and then go as a whole: a
// user costs nothing for events of which none was in the last two periods.
package badges
