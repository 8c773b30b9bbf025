package facts

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"fanfare/store/queue"
)

// H5: no fact about a dead letter is so large that the job has no room for it which it becomes when a webhook has refused it. Names and
// reasons have at most 128 bytes; here they have twice as much, of which each byte takes six as JSON.
func TestH5_FactsOfLettersFitIntoJobs(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("\x01", 256)
	data, err := json.Marshal(deadFact{name, name, name, name, name, name, name, math.MaxInt})
	if err != nil || len(data) > queue.MaxPayload/2 {
		t.Errorf("it may have %d bytes, %v", len(data), err)
	}
}
