package batch

import (
	"fmt"
	"runtime/debug"
)

// CrashOnPanic lets a panic in what one does for many end the process, as it would in a
// goroutine of its own. Whoever recovers it, as a server does for one request, would
// leave the others waiting for ever. Defer it.
func CrashOnPanic() {
	if v := recover(); v != nil {
		text := fmt.Sprintf("%v\n\n%s", v, debug.Stack())
		go panic(text)
		select {}
	}
}
