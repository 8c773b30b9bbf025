package main

import "embed"

// documents are the documents of the repository, which the server shows at /docs/.
//
//go:embed *.md docs/*.md docs/*.png docs/*.html docs/spec/*.md docs/start/*.md docs/monitoring bench/RESULTS.md
var documents embed.FS
