package targeting_test

import (
	"testing"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/transport"
	"fanfare/store/storetest"
)

// TestQ8_AnAppGetsItsPlaceBack: a notification waits while its device is registered again for
// another app. It is sent through that app, and its place is given back to the first app.
func TestQ8_AnAppGetsItsPlaceBack(t *testing.T) {
	t.Parallel()
	p := setup(t, options{
		db: storetest.Open(t, ""), idle: true, waits: true,
		sender: func(*pipeline) transport.Sender { return silentSender() },
		// The loss of one place is enough.
		delivery: func(o *delivery.Options) { o.InFlight = 1 },
	})
	p.mustDevice("bob", 1)
	p.mustDevice("eve", 2)
	moved := p.mustPost(hello("bob"))
	p.mustTargetAll(moved, 1)
	p.mustDeviceOf("bob", token(1), "com.example.other")
	p.first.start()
	p.mustCounts(p.mustEnd(moved, api.EventDone), counts{1, 1, 1, 0, 0})
	p.mustCounts(p.mustEnd(p.mustPost(hello("eve")), api.EventDone), counts{1, 1, 1, 0, 0})
}
