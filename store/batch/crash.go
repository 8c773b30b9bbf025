package batch

import (
	"fmt"
	"runtime/debug"
)

// CrashOnPanic lets a panic end the process, even if a server would recover it. Defer it in the
// goroutine of a caller that works for other callers too: if the panic ended only one request, the
// others would wait forever.
func CrashOnPanic() {
	if v := recover(); v != nil {
		text := fmt.Sprintf("%v\n\n%s", v, debug.Stack())
		go panic(text)
		select {}
	}
}
