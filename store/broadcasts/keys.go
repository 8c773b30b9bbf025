package broadcasts

import "time"

const keySent = "ff:{broadcasts}:sent"

// keepSent is how long the times of updates are kept after the last one.
const keepSent = 30 * 24 * time.Hour
