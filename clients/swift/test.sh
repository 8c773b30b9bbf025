#!/usr/bin/env bash
# Compares the client in Swift with the OpenAPI document, and, where there is Swift, compiles it with the code of the
# documents and tests it against a real server. Debian has Swift from 13 on. On an older one, debootstrap makes a tree of
# trixie with swiftlang, libc6-dev, libstdc++-14-dev and git, and a script called swift on PATH runs it there with chroot,
# this folder and /proc mounted.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec </dev/null

say() { printf '== the client in Swift: %s\n' "$*"; }

if ! command -v python3 >/dev/null; then
	say "skipped, since there is no python3 (https://python.org)"
	exit 0
fi
export FANFARE_OPENAPI=$PWD/openapi/openapi.json PYTHONDONTWRITEBYTECODE=1
say "its calls and types are those of the OpenAPI document"
python3 clients/swift/Tests/test_contract.py

if ! command -v swift >/dev/null; then
	say "not compiled, since there is no Swift (https://swift.org)"
	exit 0
fi
work=$PWD/.tmp/client-swift
package=$work/clients/swift
mkdir -p "$package"
rm -rf "$package/Sources" "$package/Tests"
cp -r clients/swift/. "$package"

# document makes a file of a document's code. UIKit is missing where Swift is tested.
document() {
	local name=$1 file=$2
	{
		echo 'import Foundation'
		printf '%s\n' '#if canImport(FoundationNetworking)' 'import FoundationNetworking' '#endif'
		echo '@testable import Fanfare'
		[ "$name" != Readme ] || echo 'private func userToken() async throws -> String? { nil }'
		awk '/^```swift$/ { code = 1; text = ""; next } /^```/ { if (code && text !~ /UIKit/) printf "%s", text; code = 0 } code { text = text $0 "\n" }' "$file" |
			grep -vE '^import ' | sed -E 's/^(let|func|enum) /private &/'
	} >"$package/Tests/FanfareTests/$name.swift"
}
document Readme clients/swift/README.md
document Guide docs/start/ios.md

. .ci/program.sh
say "tests"
exec python3 clients/swift/Tests/with_server.py swift test --package-path "$package" "$@"
