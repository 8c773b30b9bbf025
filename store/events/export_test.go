package events

import "time"

// Age lets a job be one that this process did not accept.
func (j *Job) Age() { j.here = time.Time{} }
