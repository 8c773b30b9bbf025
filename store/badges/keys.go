package badges

// keysOf are the keys of a user's badge, all in one slot: the badge, and what changed it in even and in odd periods.
func keysOf(user string) []string {
	of := "ff:{badge:" + user + "}:"
	return []string{of + "count", of + "names:0", of + "names:1"}
}
