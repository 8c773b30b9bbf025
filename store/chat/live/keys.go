package live

// PresenceKey is the key that exists while a user has a live stream. Targeting reads it for the
// members of a chat, together with their settings.
func PresenceKey(user string) string { return "ff:{live:" + user + "}:present" }
