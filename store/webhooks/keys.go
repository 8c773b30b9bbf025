package webhooks

import "time"

// progressTTL is how long a position is kept after the last look: longer than facts are.
const progressTTL = 8 * 24 * time.Hour

// key is the progress of a webhook in a lane.
func (s *Store) key(series string, lane int) string { return s.o.Beside(lane, "hook:"+series) }
