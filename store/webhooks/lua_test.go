package webhooks

import (
	"testing"

	"fanfare/store/storetest"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	storetest.Checks(t, scripts)
}
