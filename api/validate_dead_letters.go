package api

// deadLettersRules requires a caller who means all dead letters to say so, and refuses a queue beside a kind that has
// none.
func deadLettersRules(to reporter, r *DeadLettersRequest) {
	if !r.All && r.Kind == "" && r.Reason == "" && r.Type == "" && r.App == "" && r.Queue == "" {
		to.ReportError(r.All, "all", "All", "required", "to be true, or one of kind, reason, type, app and queue")
	}
	if CheckDeadQueue(r.Kind, r.Queue) != nil {
		to.ReportError(r.Queue, "queue", "Queue", "job", "")
	}
}

// deadQueueRule is broken by a queue beside a kind of dead letters that has none.
const deadQueueRule = "is for the kind job alone"

// CheckDeadQueue refuses a queue beside a kind of dead letters that has none.
func CheckDeadQueue(kind, queue string) error {
	if queue != "" && kind != "" && kind != DeadJob {
		return Invalid("queue", "job", deadQueueRule)
	}
	return nil
}
