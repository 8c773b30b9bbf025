package app

import (
	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/targeting"
	"fanfare/store/events"
	"fanfare/store/facts"
	"fanfare/store/queue"
)

// openQueues makes the queues of fanfare's own work, which tell facts. It runs nothing.
func (a *app) openQueues() {
	c := a.config
	shared := queue.Options{
		Shards: c.Shards, Serve: c.ShardSet, Retention: c.TombstoneRetention, GroupRetention: c.EventRetention, ReportRetention: c.EventRetention, MaxAge: c.MaxAge,
		RetryBase: c.RetryBase, RetryMax: c.RetryMax, MaxAttempts: c.MaxAttempts, Drain: a.drain(), Logger: a.log,
		OnEmptied: a.metrics.RedisEmptied,
	}
	push, oldestEvent := shared, c.MaxAge+targeting.Overtime
	// Parts may end that much before their event, and the event that much later than its notifications in a shard.
	push.GroupRetention += oldestEvent
	push.Lease, push.InFlight, push.Room = c.NotificationLease, c.MaxInFlight, func() int { return a.delivery.Room() }
	toTarget, toSend, toDo := push, push, shared
	toTarget.Name, toSend.Name = "events", "notifications"
	toSend.Show, toSend.ParkedBytes = delivery.ShowMessage, c.PausedBytes
	toTarget.Show, toTarget.MaxAge = events.ShowJob, oldestEvent
	toSend.MaxAge = -1 // delivery ends notifications by age, and counts them
	toDo.Name, toDo.Kind, toDo.Lease = "jobs", api.DeadTask, c.JobLease
	toDo.MaxAge = -1            // a change on record is retried for ever
	toDo.InFlight = jobsAtATime // they share the SQL connections with requests
	toDo.ReportRetention = max(toDo.ReportRetention, api.DeadOperationsKept)
	toTarget.Lanes = true
	a.tells = facts.NewSwitch(a.record, a.log)
	for _, o := range []*queue.Options{&toTarget, &toSend, &toDo} {
		o.Tells = a.tells.OfQueue(o.Name)
	}
	toTarget.Left = func(shard int) { a.facts.Left(facts.OutboxOf(a.eventQueue, shard)) }
	toSend.Left = func(shard int) { a.facts.Left(facts.OutboxOf(a.notificationQueue, shard)) }
	toDo.Left = func(shard int) { a.facts.Left(facts.OutboxOf(a.jobQueue, shard)) }
	a.eventQueue, a.notificationQueue, a.jobQueue = queue.New(a.redis, toTarget), queue.New(a.redis, toSend), queue.New(a.redis, toDo)
}

// jobsAtATime bounds the background jobs under way in one process.
const jobsAtATime = 32

// queues are the queues of fanfare's own work.
func (a *app) queues() []*queue.Queue {
	return []*queue.Queue{a.eventQueue, a.notificationQueue, a.jobQueue}
}

// deadQueues are those that have dead letters.
func (a *app) deadQueues() []*queue.Queue { return append(a.queues(), a.jobs.Letters()) }
