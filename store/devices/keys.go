package devices

import "time"

// Lifetimes and bounds of the keys; doc.go says why they fit together.
const (
	entryTTL   = 10 * time.Minute
	versionTTL = time.Minute
	markTTL    = 10 * time.Second
	// maxRead is how long a reader may take from its first read of Redis to its fill of the
	// cache.
	maxRead = 5 * time.Second
	// commitWithin is how long a writer may take from its mark to its commit:
	// less than markTTL - maxRead.
	commitWithin = 4500 * time.Millisecond
	// fillBelow is the share of maxmemory up to which settings are cached in a Redis. New work is
	// refused from 90 % on.
	fillBelow = .7
	// guardTTL covers the default FANFARE_MAX_AGE of 24 h.
	guardTTL = 25 * time.Hour
)

// Fields of the settings hash.
const (
	fieldDevices = "d"
	fieldOptOut  = "o:"
	fieldMute    = "m:"
)

func settingsKey(user string) string { return "ff:{u:" + user + "}:settings" }
func changingKey(user string) string { return "ff:{u:" + user + "}:changing" }
