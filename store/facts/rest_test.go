package facts

import (
	"testing"
	"time"

	"fanfare/store/storetest"
)

// While no type is on, facts only get older: they are looked at seldom.
func TestFactsAtRestAreTrimmedSeldom(t *testing.T) {
	t.Parallel()
	on := false
	w := setup(t, storetest.Open(t, "embedded"), func(o *Options) { o.On = func(string) bool { return on } })
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	if w.s.trimDue(ago(trimAtRest/2)) || !w.s.trimDue(ago(trimAtRest)) || !w.s.trimDue(time.Time{}) {
		t.Error("not so at rest")
	}
	if on = true; !w.s.trimDue(ago(0)) {
		t.Error("not so while facts are told")
	}
}
