package api

import "fmt"

// topicUsersRules requires a user, and refuses one who is named twice.
func topicUsersRules(to reporter, r *TopicUsersRequest) {
	if len(r.Add)+len(r.Remove) == 0 {
		to.ReportError(r.Add, "add", "Add", "required", "a user, or one in remove")
	}
	seen := map[string]string{}
	unique(to, seen, r.Add, func(i int) string { return fmt.Sprintf("add[%d]", i) })
	unique(to, seen, r.Remove, func(i int) string { return fmt.Sprintf("remove[%d]", i) })
}
