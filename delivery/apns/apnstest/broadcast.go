package apnstest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// broadcastPath begins the path of broadcasts; the bundle id follows.
const broadcastPath = "/4/broadcasts/apps/"

// maxBroadcast is the largest payload of a broadcast.
const maxBroadcast = 5120

// liveActivity ends the topics of Live Activities, which a bundle id must not do here.
const liveActivity = ".push-type.liveactivity"

// judgeBroadcast checks a broadcast in the order that Apple describes: the path, the credentials, the app, the channel,
// and then everything else.
func (c *conn) judgeBroadcast(h *headers, r *Request) Answer {
	r.Topic, r.Token, r.ID = strings.TrimPrefix(h.path, broadcastPath), r.Channel, h.requestID
	bad := func(reason string) Answer { return Fail(http.StatusBadRequest, reason) }
	switch {
	case h.method != http.MethodPost:
		return Fail(http.StatusMethodNotAllowed, "MethodNotAllowed")
	case r.Topic == "" || strings.Contains(r.Topic, "/"):
		return Fail(http.StatusNotFound, "BadPath")
	case h.duplicate:
		return bad("DuplicateHeaders")
	}
	if a, ok := c.admit(r); !ok {
		return a
	}
	policy, reason := c.s.managing.find(r.Topic, r.Channel)
	if reason == "" {
		reason = badBroadcast(r, policy)
	}
	switch {
	case reason != "":
		return bad(reason)
	case len(r.Payload) > maxBroadcast:
		return Fail(http.StatusRequestEntityTooLarge, "PayloadTooLarge")
	case !json.Valid(r.Payload):
		return bad("BadRequestPayload")
	}
	return c.s.script.next(r)
}

// admit checks credentials and app of a request to the bundle id in r.Topic.
func (c *conn) admit(r *Request) (Answer, bool) {
	if !c.cert {
		if a, ok := c.authorize(r); !ok {
			return a, false
		}
	}
	o := &c.s.o
	switch {
	case strings.HasSuffix(r.Topic, liveActivity):
		return Fail(http.StatusBadRequest, "TopicDisallowed"), false
	case len(o.Topics) > 0 && !slices.Contains(o.Topics, r.Topic) && !slices.Contains(o.Topics, r.Topic+liveActivity):
		return Fail(http.StatusForbidden, "TopicMismatch"), false
	case slices.Contains(o.NoBroadcast, r.Topic):
		return Fail(http.StatusBadRequest, "FeatureNotEnabled"), false
	}
	return Answer{}, true
}

// badBroadcast returns Apple's reason against the headers of a broadcast to a channel with this storage policy, or "".
func badBroadcast(r *Request, policy int) string {
	switch {
	case r.ID != "" && !isUUID(r.ID):
		return "BadMessageId"
	case r.PushType == "":
		return "MissingPushType"
	case !strings.EqualFold(r.PushType, "liveactivity"):
		return "InvalidPushType"
	case !isInt(r.Expiration), policy == 0 && r.Expiration != "0":
		return "BadExpirationDate"
	case !slices.Contains([]string{"1", "5", "10"}, r.Priority):
		return "BadPriority"
	case len(r.Payload) == 0:
		return "PayloadEmpty"
	}
	return ""
}

// badChannel returns Apple's reason against the form of a channel's name, or "".
func badChannel(channel string) string {
	if channel == "" {
		return "MissingChannelId"
	}
	if raw, err := base64.StdEncoding.DecodeString(channel); err != nil || len(raw) > 64 {
		return "BadChannelId"
	}
	return ""
}
