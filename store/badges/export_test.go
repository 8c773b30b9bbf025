package badges

import "time"

// SetPeriod changes for how long names are known at least.
func (s *Store) SetPeriod(d time.Duration) { s.period = d }
