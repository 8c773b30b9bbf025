package queue_test

import (
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// killed are the processes of runUntilKilled, which need a moment to give up.
var killed sync.WaitGroup

type tests struct{ *testing.M }

func (m tests) Run() int {
	code := m.M.Run()
	killed.Wait()
	return code
}

// Nothing that a test began goes on after the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }
