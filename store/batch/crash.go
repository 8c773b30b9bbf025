package batch

import (
	"fmt"
	"runtime/debug"
)

// CrashOnPanic makes a panic end the process, as in a goroutine of its own. Defer it in a
// caller's goroutine that works for other callers too: if a server recovered the panic as
// that of one request, the others would wait forever.
func CrashOnPanic() {
	if v := recover(); v != nil {
		text := fmt.Sprintf("%v\n\n%s", v, debug.Stack())
		go panic(text)
		select {}
	}
}
