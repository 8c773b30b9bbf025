package api

import "strings"

// ValidIdentifier tells whether s may name a thing that clients choose: 1 to
// MaxIdentifier bytes of A-Z a-z 0-9 . _ : @ -, but neither . nor .., which clients and
// proxies fold away in a path. No such name can hold a brace, so none can move a Redis
// key to another slot.
func ValidIdentifier(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > MaxIdentifier {
		return false
	}
	for i := range len(s) {
		if !identifierByte(s[i]) {
			return false
		}
	}
	return true
}

// ValidObject tells whether s may be the object of an event: an identifier, or a chat by the
// name that ChatObject gives it.
func ValidObject(s string) bool {
	return ValidIdentifier(s) || ValidIdentifier(strings.TrimPrefix(s, chatObject))
}

func identifierByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("._:@-", c) >= 0
}

// NormalToken returns a device token in the form it is stored in, lower-case hex, and whether s
// is a token: hex, even length, MinTokenHex to MaxTokenHex.
func NormalToken(s string) (string, bool) {
	if len(s) < MinTokenHex || len(s) > MaxTokenHex || len(s)%2 != 0 {
		return "", false
	}
	s = strings.ToLower(s)
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", false
		}
	}
	return s, true
}
