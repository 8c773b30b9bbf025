package redisdb

// checkChannel is published to and subscribed to by Check alone.
const checkChannel = "ff:check"

// loadMark is there while a snapshot is loaded.
const loadMark = "ff:loading"
