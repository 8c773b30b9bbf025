package series

import (
	"fmt"
	"time"
)

const (
	// lifetime is how long a minute is kept after the last write to it. It is longer than what Minutes
	// reads.
	lifetime = 25 * time.Hour
	// fieldDepths is the field of a minute that has how much work waited.
	fieldDepths = "depths"
)

// keyOf is the key of a minute.
func keyOf(minute int64) string { return fmt.Sprintf("ff:{series}:%d", minute) }
