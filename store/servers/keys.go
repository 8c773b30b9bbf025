package servers

import "time"

const keySeen = "ff:{processes}:seen"

const (
	// seenEvery is how often a process says that it is alive.
	seenEvery = 5 * time.Second
	// lifetime is how long a process is listed after it was seen last.
	lifetime = 15 * time.Second
)
