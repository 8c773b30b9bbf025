package events_test

import (
	"os"
	"testing"

	"fanfare/store/storetest"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	storetest.Checks(t, os.DirFS("."))
}
