package redisdb

// checkChannel is published to and subscribed to by Check alone.
const checkChannel = "ff:check"

// neverKey is never there. Ping deletes it, which changes nothing, and which Redis refuses as long as it refuses changes.
const neverKey = "ff:never"

// loadMark is there while a snapshot is loaded.
const loadMark = "ff:loading"
