package apps

import "time"

const keyPaused = "ff:{apps}:paused"

// keepPaused is how long a pause is remembered after its last change. Whatever
// is still parked then is tried again.
const keepPaused = 7 * 24 * time.Hour

func keyProbe(app string) string { return "ff:{apps}:probe:" + app }
