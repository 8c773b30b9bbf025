package handlers_test

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// No goroutine that a test started runs after the tests. Many tests wait for a browser or a heartbeat, so
// one more of them runs at once than there are processors.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", strconv.Itoa(runtime.GOMAXPROCS(0)+1)) // the flag -parallel overrides it
	goleak.VerifyTestMain(m)
}
