package redisdb

// checkChannel is published to and subscribed to by Check alone.
const checkChannel = "ff:check"
