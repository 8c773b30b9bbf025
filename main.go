// Command fanfare is the real-time backend of a product in one process:
// HTTP/JSON in front, Redis as the engine, SQL as the record, APNs behind.
package main

import (
	"context"
	"embed"
	"os"
	"os/signal"
	"syscall"

	"fanfare/app"
)

// documents are the documents of the repository, which the server shows at /docs/.
//
//go:embed *.md docs/*.md docs/*.png docs/*.html docs/spec/*.md docs/start/*.md docs/monitoring bench/RESULTS.md clients/*/README.md
var documents embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(app.Run(ctx, app.Program{
		Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Documents: documents,
	}))
}
