package live

// PresenceKey is the key that exists while a user has a live stream. Whoever
// targets a chat's members reads it together with their settings.
func PresenceKey(user string) string { return "ff:{live:" + user + "}:present" }
