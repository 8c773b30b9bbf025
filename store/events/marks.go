package events

import "strings"

// MarkStored is the mark of a notification that became a job of its own. Every other mark is a MarkOf.
const MarkStored = "stored"

// MarkName is the name of a notification's mark: the beginning of the notification's id.
func MarkName(id string) string { return id[:18] }

// MarkText is the text of a mark in the queue. It has the user's name, so that a later run does not
// count a user as suppressed who already got the notification.
func MarkText(mark, user string) string { return mark + " " + user }

// ParseMark reads the form of MarkText.
func ParseMark(text string) (mark, user string) {
	mark, user, _ = strings.Cut(text, " ")
	return mark, user
}
