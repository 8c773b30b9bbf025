#!/usr/bin/env bash
# Checks the OpenAPI document with redocly and spectral, makes clients of it in
# TypeScript and Go, and runs both against a server. What is needed is in .tmp/clients;
# npm downloads it at the first run, and when openapi/clients/package-lock.json changed.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

work=$PWD/.tmp/clients
mkdir -p "$work"
. .ci/program.sh

# Their tests mostly wait, so several languages are tested at once, the slowest first. Each says at its end what it said.
export work
printf '%s\n' python typescript kotlin go swift | xargs -P 3 -I '{}' bash -c '
	status=0
	"clients/{}/test.sh" >"$work/{}.log" 2>&1 || status=1
	cat "$work/{}.log"
	exit "$status"'

if ! command -v npm >/dev/null; then
	echo "== clients: skipped, since npm is not installed (https://nodejs.org)"
	exit 0
fi

root=$PWD
server=""
clean_up() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	wait
	rm -rf "$work/server"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say() { printf '== clients: %s\n' "$*"; }
tool() { (cd "$work" && REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true "node_modules/.bin/$@"); }

# install brings the programs of the lock file; none of their scripts is run.
install() {
	cmp -s "$work/package-lock.json" "$work/node_modules/installed" && return
	say "npm ci"
	(cd "$work" && npm ci --engine-strict --ignore-scripts --no-audit --no-fund --loglevel=error)
	cp "$work/package-lock.json" "$work/node_modules/installed"
}

# start runs a server on a free port and sets base to its address.
start() {
	rm -rf "$work/server" && mkdir "$work/server"
	cd "$work/server"
	env -i PATH="$PATH" HOME="$HOME" FANFARE_ADDR=127.0.0.1:0 "$FANFARE_PROGRAM" >log 2>&1 &
	server=$!
	cd "$root"
	for _ in $(seq 300); do
		base=$(sed -nE 's|.*"docs":"(http://[0-9.:]+)/docs/".*|\1|p' "$work/server/log")
		[ -z "$base" ] || return 0
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	cat "$work/server/log" >&2
	return 1
}

mkdir -p "$work/fanfare"
cp openapi/clients/* "$work"
install

say "redocly and spectral"
tool redocly lint --extends=recommended-strict "$root/openapi/openapi.json"
tool spectral lint --ruleset spectral.yaml --fail-severity=hint "$root/openapi/openapi.json"

say "openapi-typescript"
tool openapi-typescript "$root/openapi/openapi.json" --output fanfare.d.ts
tool tsc

say "oapi-codegen"
(
	cd "$work"
	go tool oapi-codegen -generate types,client -package fanfare -o fanfare/client.go "$root/openapi/openapi.json"
	go vet ./...
	go build -o client-go .
)

say "a server for both"
start
node "$work/out/client.js" "$base"
"$work/client-go" "$base"
