// Package wake lets many waiters hear of changes through one subscription of Redis, so that nobody has to ask
// again and again.
package wake
