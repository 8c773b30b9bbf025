package events

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/queue"
)

// H5: no fact is so large that the job has no room for it which it becomes when a webhook has refused it. Names and reasons have at
// most 128 bytes; here they have twice as much, of which each byte takes six as JSON.
func TestH5_FactsFitIntoJobs(t *testing.T) {
	t.Parallel()
	name, many, why := strings.Repeat("\x01", 256), int64(math.MaxInt64), map[string]int64{}
	for n := range 100 {
		why[fmt.Sprint(name, n)] = many
	}
	r := &api.EventReport{State: api.EventSuperseded, Type: name, Recipients: &many, FailedBy: mostFrequent(why)}
	r.Notifications, r.Delivered, r.Failed, r.Expired, r.Cancelled, r.Superseded = many, many, many, many, many, many
	for typ, data := range map[string][]byte{
		api.FactEventDone: doneData(r),
		api.FactNotificationFailed: failedData(name, Failed{User: name, Token: name, Platform: api.Platform(name), Topic: name, Environment: api.Environment(name), Reason: name,
			Attempts: math.MaxInt}),
	} {
		if len(data) > queue.MaxPayload/2 {
			t.Errorf("%s may have %d bytes", typ, len(data))
		}
	}
}
