package apps

import "time"

const (
	keyPaused = "ff:{apps}:paused"
	keyAsked  = "ff:{apps}:asked"
)

// FactsKey has the facts about apps until the relay moves them (store/facts).
const FactsKey = "ff:{apps}:facts:out"

// keepPaused is how long a pause is remembered after its last change. Whatever
// is still parked then is tried again.
const keepPaused = 7 * 24 * time.Hour

// keepAsked is how long a request for a probe is kept. Processes read it each second.
const keepAsked = time.Minute

// keyOnce is the record of an Idempotency-Key, by the key's api.Idempotency.Name.
func keyOnce(name string) string { return "ff:{apps}:once:" + name }

func keyProbe(app string) string { return "ff:{apps}:probe:" + app }
