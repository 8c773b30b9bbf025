package apns

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/sideshow/apns2"

	"fanfare/api"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

func broadcastPath(n *transport.Notification) string {
	return "/4/broadcasts/apps/" + api.LiveBundle(n.Topic)
}

// broadcastFields are the headers of a broadcast. APNs demands a priority and an expiration, and takes neither a topic
// nor a collapse id ("Sending broadcast push notification requests to APNs").
func (p *push) broadcastFields() []h2.Field {
	expiration := int64(0)
	if p.n.Expiration != nil {
		expiration = max(p.n.Expiration.Unix(), 0)
	}
	fields := []h2.Field{
		{Name: "content-type", Value: "application/json; charset=utf-8"},
		{Name: "apns-channel-id", Value: p.n.Channel},
		{Name: "apns-push-type", Value: string(apns2.PushTypeLiveActivity)},
		{Name: "apns-request-id", Value: p.n.ID, Sensitive: true},
		{Name: "apns-priority", Value: strconv.Itoa(cmp.Or(p.n.Priority, 10))},
		{Name: "apns-expiration", Value: strconv.FormatInt(expiration, 10), Sensitive: true},
	}
	if p.token != nil {
		fields = append(fields, h2.Field{Name: "authorization", Value: p.token.bearer})
	}
	return fields
}

// The reasons that APNs gives only for channels and broadcasts ("Handling error responses from Apple Push Notification
// service").
const (
	reasonFeature       = "FeatureNotEnabled"
	reasonNoChannelID   = "MissingChannelId"
	reasonBadChannelID  = "BadChannelId"
	reasonNoChannel     = "ChannelNotRegistered"
	reasonParams        = "BadRequestParams"
	reasonPayload       = "BadRequestPayload"
	reasonNoPushType    = "MissingPushType"
	reasonChannelsFull  = "CannotCreateChannelConfig"
	reasonTopicMismatch = "TopicMismatch"
)

// broadcastOutcomes are the answers to broadcasts that mean something else than those to notifications, or that only
// broadcasts get (docs/spec/live.md). All others are as in outcomes.
var broadcastOutcomes = map[answer]transport.Outcome{
	// The channel is gone, and no other request can bring it back.
	{http.StatusBadRequest, reasonBadChannelID}: transport.DropDevice,
	{http.StatusBadRequest, reasonNoChannel}:    transport.DropDevice,

	// The app may not broadcast. Its other notifications are sent, so that it is not paused: an operator enables
	// broadcasts, and tries the dead letter again.
	{http.StatusBadRequest, reasonFeature}: transport.OurBug,

	{http.StatusBadRequest, reasonNoChannelID}:  transport.OurBug,
	{http.StatusBadRequest, reasonParams}:       transport.OurBug,
	{http.StatusBadRequest, reasonPayload}:      transport.OurBug,
	{http.StatusBadRequest, reasonNoPushType}:   transport.OurBug,
	{http.StatusBadRequest, reasonChannelsFull}: transport.OurBug,

	{http.StatusForbidden, reasonTopicMismatch}: transport.PauseApp,

	// A 503 whose reason is "Service Unavailable", with a blank, as Apple's table has it.
	{http.StatusServiceUnavailable, ""}: transport.RetryUncounted,
}

// classifyBroadcast is classify for a broadcast.
func classifyBroadcast(status int, reason string) transport.Outcome {
	if o, ok := broadcastOutcomes[answer{status, reason}]; ok {
		return o
	}
	if _, ok := outcomes[answer{status, reason}]; !ok {
		if o, ok := broadcastOutcomes[answer{status, ""}]; ok {
			return o
		}
	}
	return classify(status, reason)
}
