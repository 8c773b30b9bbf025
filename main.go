// Command fanfare is the real-time backend of a product in one process:
// HTTP/JSON in front, Redis as the engine, SQL as the record, APNs behind.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"fanfare/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(app.Run(ctx, app.Program{
		Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Documents: documents,
	}))
}
