package api

import "strings"

// ValidIdentifier tells whether s may be an identifier chosen by a client: 1 to MaxIdentifier bytes of
// A-Z a-z 0-9 . _ : @ -, but neither . nor .., which clients and proxies remove from a path. An
// identifier has no braces, so it cannot move a Redis key to another slot.
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

// ValidObject tells whether s may be the object of an event: an identifier or a ChatObject.
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

// NormalToken returns a device token in its stored form, lower-case hex, and whether s is a token:
// hex of even length, MinTokenHex to MaxTokenHex digits.
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
