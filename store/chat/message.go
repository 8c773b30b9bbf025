package chat

import "fanfare/api"

// decodeLive reads what a message's sending published.
func decodeLive(payload string) (epoch string, m api.ChatMessage, err error) {
	return "", m, errSkeleton
}
