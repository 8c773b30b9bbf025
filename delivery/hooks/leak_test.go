package hooks

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine that a test started runs after the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
