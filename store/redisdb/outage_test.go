package redisdb_test

import (
	"testing"
	"testing/synctest"
	"time"

	"fanfare/store/redisdb"
)

// The first failure and the last recovery are told once; one caller in 5 s may try a part
// that is away and that nothing else tries.
func TestOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var o redisdb.Outage
		want := func(what string, got, want bool) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %v", what, got)
			}
		}
		want("nothing has failed", o.Avoid(1), false)
		want("the first", o.Failed(1), true)
		want("the second", o.Failed(2), false)
		want("a part that is there", o.Avoid(3), false)
		<-time.After(3 * time.Second)
		want("the first again", o.Failed(1), false)
		<-time.After(3 * time.Second)
		want("3 s after its last failure", o.Avoid(1), true)
		want("6 s after its last failure", o.Avoid(2), false)
		want("another caller", o.Avoid(2), true)
		_, last := o.Worked(2)
		want("the last is back", last, false)
		want("it is back", o.Avoid(2), false)
		away, last := o.Worked(1)
		want("the last is back", last && away == 6*time.Second, true)
		_, last = o.Worked(1)
		want("it was told", last, false)
	})
}
