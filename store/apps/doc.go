// Package apps records for the whole cluster which apps are paused (of APNs, that is a topic in
// an environment), and which process may probe a paused app.
//
// Keys:
//
//	key                       type    lifetime
//	ff:{apps}:paused          hash    7 days after its last change
//	ff:{apps}:probe:<app>     string  one probe interval
//	ff:{apps}:asked           hash    1 minute after its last change
//	ff:{apps}:once:<name>     string  24 h: an Idempotency-Key with which probes were asked for
//	ff:{apps}:facts:out       stream  until they are moved: facts about apps (store/facts)
//
// A field of the first hash is an app, and its value is "<state> <since ms> <reason>". The messages of a
// paused app wait in parked streams of the queue "notifications". While an app is resuming, its
// messages are moved back, and its field is removed when all are back. A field of the
// second hash is an app, and its value names the newest request for a probe.
package apps
