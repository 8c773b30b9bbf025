#!/usr/bin/env bash
# Tests the client in Go against servers that the tests start, kill and start again.
set -euo pipefail
cd "$(dirname "$0")"

if ! command -v go >/dev/null; then
	echo "== clients: the one in Go is skipped, since go is not installed (https://go.dev/dl)"
	exit 0
fi
echo "== clients: the one in Go"
go vet ./...
go test -race -count=1 -timeout 10m ./... "$@"
