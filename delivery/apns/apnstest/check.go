package apnstest

import (
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// headers are the parts of a request to which Apple's rules apply.
type headers struct {
	method, path  string
	authorization string
	requestID     string
	duplicate     bool
}

// pushTypes are the push types that Apple documents, with what must follow the bundle id in the topic.
var pushTypes = map[string]string{
	"alert": "", "background": "", "location": ".location-query", "voip": ".voip", "complication": ".complication",
	"fileprovider": ".pushkit.fileprovider", "mdm": "", "liveactivity": ".push-type.liveactivity", "pushtotalk": ".voip-ptt",
	"widgets": ".push-type.widgets", "controls": ".push-type.controls",
}

// badPushType: the type is unknown, or the topic is not one of this type.
func badPushType(r *Request) bool {
	need, known := pushTypes[r.PushType]
	has := ""
	for _, suffix := range pushTypes {
		if suffix != "" && strings.HasSuffix(r.Topic, suffix) {
			has = suffix
		}
	}
	return !known || r.Topic != "" && has != need
}

// read fills a Request and headers from the fields of a HEADERS frame.
func (h *headers) read(r *Request, fields []hpack.HeaderField) {
	seen := func(dst *string, value string) {
		h.duplicate = h.duplicate || *dst != ""
		*dst = value
	}
	for _, f := range fields {
		switch f.Name {
		case ":method":
			h.method = f.Value
		case ":path":
			h.path = f.Value
		case "authorization":
			seen(&h.authorization, f.Value)
		case "apns-id":
			seen(&r.ID, f.Value)
		case "apns-topic":
			seen(&r.Topic, f.Value)
		case "apns-push-type":
			seen(&r.PushType, f.Value)
		case "apns-priority":
			seen(&r.Priority, f.Value)
		case "apns-expiration":
			seen(&r.Expiration, f.Value)
		case "apns-collapse-id":
			seen(&r.CollapseID, f.Value)
		case "apns-channel-id":
			seen(&r.Channel, f.Value)
		case "apns-request-id":
			seen(&h.requestID, f.Value)
		}
	}
	r.Method, r.Path, r.Token = h.method, h.path, strings.TrimPrefix(h.path, "/3/device/")
	if len(h.authorization) > 7 && strings.EqualFold(h.authorization[:7], "bearer ") {
		r.Bearer = h.authorization[7:]
	}
}

// check applies all of Apple's rules except those for provider tokens. ok is true if the request
// keeps them.
func (s *Server) check(h *headers, r *Request, certificate bool) (Answer, bool) {
	switch {
	case h.method != http.MethodPost:
		return Fail(http.StatusMethodNotAllowed, "MethodNotAllowed"), false
	case !strings.HasPrefix(h.path, "/3/device/"):
		return Fail(http.StatusNotFound, "BadPath"), false
	case h.duplicate:
		return Fail(http.StatusBadRequest, "DuplicateHeaders"), false
	case r.Token == "":
		return Fail(http.StatusBadRequest, "MissingDeviceToken"), false
	}
	if reason := s.badHeader(r, certificate); reason != "" {
		return Fail(http.StatusBadRequest, reason), false
	}
	if len(r.Payload) > payloadLimit(r.PushType) {
		return Fail(http.StatusRequestEntityTooLarge, "PayloadTooLarge"), false
	}
	return Answer{}, true
}

// badHeader returns Apple's reason for a 400, or "". With a certificate the topic may be missing,
// with a provider token it may not.
func (s *Server) badHeader(r *Request, certificate bool) string {
	switch {
	case !isHex(r.Token):
		return "BadDeviceToken"
	case r.ID != "" && !isUUID(r.ID):
		return "BadMessageId"
	case r.Topic == "" && !certificate:
		return "MissingTopic"
	case len(s.o.Topics) > 0 && !slices.Contains(s.o.Topics, r.Topic):
		return "TopicDisallowed"
	case badPushType(r):
		return "InvalidPushType"
	case r.PushType == "liveactivity" && certificate: // only keys send to Live Activities
		return "TopicDisallowed"
	case r.Expiration != "" && !isInt(r.Expiration):
		return "BadExpirationDate"
	case badPriority(r):
		return "BadPriority"
	case len(r.CollapseID) > 64:
		return "BadCollapseId"
	case len(r.Payload) == 0:
		return "PayloadEmpty"
	}
	return ""
}

// badPriority: background pushes may not ask for immediate delivery.
func badPriority(r *Request) bool {
	switch r.Priority {
	case "", "1", "5":
		return false
	case "10":
		return r.PushType == "background"
	}
	return true
}

// payloadLimit is 4 KB, and 5 KB for voip.
func payloadLimit(pushType string) int {
	if pushType == "voip" {
		return 5120
	}
	return 4096
}

// isInt accepts seconds since the epoch, including 0.
func isInt(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// isHex accepts device tokens of 32 bytes or more, in upper or lower case.
func isHex(s string) bool {
	if len(s) < 64 || len(s)%2 != 0 {
		return false
	}
	for i := range len(s) {
		if !hexDigit(s[i]) && (s[i] < 'A' || s[i] > 'F') {
			return false
		}
	}
	return true
}

// isUUID accepts only the canonical form: lower case, 8-4-4-4-12.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch i {
		case 8, 13, 18, 23:
			if s[i] != '-' {
				return false
			}
		default:
			if !hexDigit(s[i]) {
				return false
			}
		}
	}
	return true
}

// hexDigit accepts only lower case.
func hexDigit(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

// uuidBytes packs a UUID; anything else is zero.
func uuidBytes(s string) (id [16]byte) {
	if isUUID(s) {
		_, _ = hex.Decode(id[:], []byte(strings.ReplaceAll(s, "-", "")))
	}
	return id
}
