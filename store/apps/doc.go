// Package apps remembers which APNs apps (a topic in an environment) are
// paused, for the whole cluster, and who may probe one.
//
// Keys:
//
//	key                       type    lifetime
//	ff:{apps}:paused          hash    7 days after its last change
//	ff:{apps}:probe:<app>     string  one probe interval
//
// A field of the hash is an app, its value "<state> <since ms> <reason>". A
// paused app's messages wait in parked streams of the queue "notifications";
// a resuming one's are on their way back, and its field goes when all are.
package apps
