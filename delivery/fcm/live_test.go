package fcm

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fanfare/delivery/transport"
	"fanfare/store/storetest"
)

// G7: an iPhone's activity is sent to with its own token and the phone's registration token, with and without a time to live.
// An Android phone gets the same without the activity's token, and the data, for which an iPhone has no use.
func TestG7_LiveActivityToken(t *testing.T) {
	t.Parallel()
	now, later := time.Unix(1_900_000_000, 0), time.Unix(1_900_000_060, 0)
	activity, registration := strings.Repeat("ab", 40), "cRAlZ0RtTOe5Y7mn9s7fDu:APA91bF"
	payload := []byte(`{"android":{"priority":"HIGH"},"apns":{"headers":{"apns-priority":"10"},"payload":{"aps":{"event":"update","timestamp":1900000000}}},"data":{"live":"{\"apns\":{}}","type":"t"}}`)
	for name, c := range map[string]struct {
		token, target, want string
		expires             *time.Time
	}{
		"iPhone":  {"la.x", registration + " " + activity, activity, nil},
		"Expires": {"la.x", registration + " " + activity, activity, &later},
		"Android": {registration, "", "", nil},
	} {
		body, err := message(&transport.Notification{Token: c.token, Target: c.target, Payload: payload, Expiration: c.expires, At: now})
		storetest.Must(t, err)
		var got struct {
			Message struct {
				Token   string
				Android struct{ Priority, TTL string }
				APNs    struct {
					Token   string `json:"live_activity_token"`
					Headers map[string]string
					Payload struct{ APS struct{ Timestamp int64 } }
				}
				Data map[string]string
			}
		}
		storetest.Must(t, json.Unmarshal(body, &got))
		m := got.Message
		if m.Token != registration || m.APNs.Token != c.want || m.APNs.Payload.APS.Timestamp != 1_900_000_000 || m.APNs.Headers["apns-priority"] != "10" ||
			c.want == "" && m.Data["live"] != `{"apns":{}}` || c.want != "" && (m.Data != nil || m.Android.Priority != "" || (m.APNs.Headers["apns-expiration"] != "") != (c.expires != nil)) {
			t.Errorf("%s: %s", name, body)
		}
	}
}
