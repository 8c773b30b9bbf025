// Package webhooks has the webhooks (docs/spec/webhooks.md): what they are is on record in SQL, in the table webhooks,
// and how far each has come is in Redis.
//
// A webhook reads every lane of the facts by itself. What Redis keeps of that is in the lane's own slot, under the
// webhook's series, a random name that it gets when it is made:
//
//	<slot of the lane>hook:<series>  hash  pos    the position up to which facts were taken; none: the oldest there is
//	                                       replays how often it was set by a replay
//	                                       last   the last answer, JSON
//	                                       at     when it came, in ms
//	                                       since  since when every answer is a refusal or none, in ms
//	                                       gap    how many facts went unsent because they were kept no longer
//	                                       expires 8 days after the last look of who sends, a day after the facts
//
// A position is moved from one value to another by a compare-and-set, so of two senders that believe to own a lane, only
// one moves it. The other one reads it again, and repeats facts that were sent already. A position that Redis has lost is
// the oldest there is: facts are repeated, none is left out.
//
// Secrets are in SQL as they are, because requests are signed with them: whoever can read the table can sign. No answer
// but the one that made a secret has it, and no log.
package webhooks
