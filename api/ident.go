package api

import "strings"

// ValidIdentifier reports whether s may be an identifier chosen by a client: 1 to MaxIdentifier bytes of
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

// ValidObject reports whether s may be the object of an event: an identifier or a ChatObject.
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

// ValidLocale reports whether s is a language, perhaps with a region, such as de or de-AT: parts of letters
// and digits with hyphens between them, the first of 2 to 8 letters, the others of 1 to 8 bytes.
func ValidLocale(s string) bool {
	for i, part := range strings.Split(s, "-") {
		if len(part) == 0 || len(part) > 8 || !consistsOf(part, letters) {
			return false
		}
		if i == 0 && (len(part) < 2 || strings.ContainsAny(part, "0123456789")) {
			return false
		}
	}
	return len(s) <= MaxLocale
}

// ParseToken returns a device token in its stored form, and the platform that issued it, which the
// token's form tells (W1). The forms exclude each other:
//
//	apns     MinTokenHex to MaxTokenHex hex digits, an even number; stored in lower case
//	webpush  "wp." and 43 characters of base64url, a SHA-256
//	fcm      any other MinDeviceToken to MaxDeviceToken characters of A-Za-z0-9_:.-
//
// Text that is no token has no platform.
func ParseToken(s string) (token string, p Platform) {
	hash, isHash := strings.CutPrefix(s, "wp.")
	switch {
	case len(s) >= MinTokenHex && len(s) <= MaxTokenHex && len(s)%2 == 0 && consistsOf(s, "abcdefABCDEF"):
		return strings.ToLower(s), PlatformAPNs
	case isHash && len(hash) == tokenHash && consistsOf(hash, letters+"_-"):
		return s, PlatformWebPush
	case len(s) >= MinDeviceToken && len(s) <= MaxDeviceToken && consistsOf(s, letters+"_:.-"):
		return s, PlatformFCM
	}
	return "", ""
}

// tokenHash is the length of the SHA-256 in a browser's token.
const tokenHash = 43

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// consistsOf reports whether a text has only digits and these other bytes.
func consistsOf(s, others string) bool {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && strings.IndexByte(others, s[i]) < 0 {
			return false
		}
	}
	return true
}

// NormalToken returns a device token in its stored form, and whether it has the form of any platform.
func NormalToken(s string) (string, bool) {
	token, platform := ParseToken(s)
	return token, platform != ""
}

// ErasedUser stands for a user who was erased, where something remains of what the user did or was
// part of. It is no identifier, so no user has it.
const ErasedUser = "~"
