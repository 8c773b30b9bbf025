package events

import "strings"

// MarkStored is the mark of a notification that became a job of its own. Every other mark is the
// label of a notification's end.
const MarkStored = "stored"

// MarkName names the mark of a notification: enough of its id.
func MarkName(id string) string { return id[:18] }

// MarkText is a mark as the queue keeps it. It holds the user's name, so that a later run
// does not count a user as suppressed who already got the notification.
func MarkText(mark, user string) string { return mark + " " + user }

// ParseMark reads what MarkText made.
func ParseMark(text string) (mark, user string) {
	mark, user, _ = strings.Cut(text, " ")
	return mark, user
}
