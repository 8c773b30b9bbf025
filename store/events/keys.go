package events

// keyWithdrawn is the stream of the ids of withdrawn events.
const keyWithdrawn = "ff:{withdrawn}:events"
