#!/usr/bin/env bash
# Makes the package of the client in TypeScript, installs it as its users do, and tests it against real servers, in Node and
# in Chromium, and with the code of its README.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec </dev/null

say() { printf '== the client in TypeScript: %s\n' "$*"; }

if ! command -v npm >/dev/null; then
	say "skipped, since npm is not installed (https://nodejs.org)"
	exit 0
fi

# Everything is made in a copy: node_modules has documents that are not the repository's.
work=$PWD/.tmp/client-typescript
package=$work/clients/typescript
app=$package/test
mkdir -p "$package" "$work/openapi"
rm -rf "$package/src" "$package/dist" "$app" "$package"/*.tgz
cp -r clients/typescript/. "$package"
cp openapi/openapi.json "$work/openapi"

if ! cmp -s "$package/package-lock.json" "$package/node_modules/installed"; then
	say "npm ci"
	(cd "$package" && npm ci --engine-strict --ignore-scripts --no-audit --no-fund --loglevel=error)
	cp "$package/package-lock.json" "$package/node_modules/installed"
fi

say "npm pack"
(cd "$package" && npm pack --loglevel=error >/dev/null)
(
	cd "$app"
	echo '{"type": "module", "private": true}' >package.json
	npm install --offline --no-audit --no-fund --loglevel=error ../fanfare-*.tgz
	# The first block of the README makes the client that the others use.
	awk '/^```ts$/ { n++; code = 1; next } /^```/ { code = 0 } code { print > ("block-" n) }' ../README.md
	for block in block-*; do
		n=${block#block-}
		{ [ "$n" = 1 ] || cat block-1; cat "$block"; } >"readme-$n.ts"
	done
	../node_modules/.bin/tsc
)

. .ci/program.sh

say "tests"
cd "$app"
exec node --test --test-concurrency=2 --test-timeout=120000 "$@" *.test.js
