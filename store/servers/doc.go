// Package servers lists the processes of the cluster. Each process says every 5 s that it is alive,
// and is listed for 15 s after the last time.
//
// Keys:
//
//	key                  type        lifetime
//	ff:{processes}:seen  sorted set  15 s after a process was seen
//
// A member is the description of a process as JSON, which the process replaces when its rate of deliveries is
// another one, and its score is when the process was seen last, in ms by Redis' clock. Each process that is seen removes those that have been
// silent for 15 s.
package servers
