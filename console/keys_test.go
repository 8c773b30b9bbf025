package console

import (
	"testing"

	"fanfare/api"
)

// The form that makes a key says of every scope what it opens.
func TestEveryScopeSaysWhatItOpens(t *testing.T) {
	t.Parallel()
	for _, s := range api.Scopes {
		if opens[s] == "" {
			t.Errorf("nobody says what %s opens", s)
		}
	}
}
