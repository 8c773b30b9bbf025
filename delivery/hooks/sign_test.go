package hooks

import (
	"testing"
	"time"

	"fanfare/store/storetest"
)

// H7: the signature is that of the published example, and one for each secret.
func TestH7_Signature(t *testing.T) {
	t.Parallel()
	const first, second = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAA"
	body, at := []byte(`{"test": 2432232314}`), time.Unix(1614265330, 999)
	got, err := sign([]string{first}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body)
	storetest.Must(t, err)
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got != want {
		t.Errorf("got %s", got)
	}
	both, err := sign([]string{second, first}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body)
	other, err2 := sign([]string{second}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body)
	if err != nil || err2 != nil || both != other+" "+want {
		t.Errorf("got %s, %v %v", both, err, err2)
	}
	if _, err := sign([]string{"whsec_?"}, "x", at, body); err == nil || err.Error() != "a webhook's secret is not whsec_ and base64" {
		t.Errorf("got %v", err)
	}
}
