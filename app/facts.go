package app

import (
	"fanfare/api"
	"fanfare/store/apps"
	"fanfare/store/chat"
	"fanfare/store/events"
	"fanfare/store/facts"
)

// openFacts makes the store of what happened, which moves facts from where they were left.
func (a *app) openFacts() {
	boxes := append(facts.OutboxesOf(a.deadQueues()...), appsOutbox)
	for bucket := range chat.Buckets {
		boxes = append(boxes, chatOutbox(bucket))
	}
	a.facts = facts.New(facts.Options{
		DB: a.redis, Record: a.record, Events: a.eventQueue, Outboxes: boxes, On: a.tells.On, Over: a.events.Over, Failed: events.LetterFailed,
		KeepDone: 2*a.config.MaxAge + a.config.EventRetention, Logger: a.log,
	})
}

// appsOutbox has the facts about apps.
var appsOutbox = facts.Outbox{Name: "apps", Key: apps.FactsKey}

// chatOutbox has the facts about the chats of a bucket.
func chatOutbox(bucket int) facts.Outbox {
	name, key := chat.FactOutbox(bucket)
	return facts.Outbox{Name: name, Key: key, Type: api.FactChatMessage}
}
