// Package hooks sends facts to webhooks (docs/spec/webhooks.md).
//
// Of all processes that run a Sender, one owns each lane of the facts, under a lease (sender.go). In it every webhook
// that is on has a reader of the lane with a goroutine of its own (lane.go), so a receiver that is away holds up nobody
// else. One watch a lane tells all its readers that there is something new (watch.go). The reader gathers facts into a batch (batch.go), sends it with signatures by Standard Webhooks (sign.go, post.go),
// and does next what the answer means (pace.go). Where a webhook has come to is kept by store/webhooks.
package hooks
