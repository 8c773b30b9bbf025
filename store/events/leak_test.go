package events_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Nothing that a test began goes on after the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
