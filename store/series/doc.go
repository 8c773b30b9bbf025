// Package series keeps for a day, minute by minute, what the processes of the cluster counted.
//
// Each process writes once a minute what its counters gained, and the buckets of its latencies. Whoever
// reads adds up what the processes wrote. One of the processes also writes how much work waits.
//
// Keys:
//
//	key                   type  lifetime
//	ff:{series}:<minute>  hash  25 h after the last write
//
// <minute> counts minutes since 1970 by Redis' clock. The fields:
//
//	<process>.<number>  what a process counted, a JSON object of numbers by name. Each write has its own
//	                    number, so that a write which is sent twice counts once
//	reader              the field of the process that writes depths
//	depths              how much work waited at the end of the minute, an object of the same kind
package series
