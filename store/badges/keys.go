package badges

// keysOf are the keys of a user's badge, all in one slot: the badge, what changed it in even and in odd periods, and which
// requests without a name changed it in even and in odd minutes.
func keysOf(user string) []string {
	of := "ff:{badge:" + user + "}:"
	return []string{of + "count", of + "names:0", of + "names:1", of + "sent:0", of + "sent:1"}
}
