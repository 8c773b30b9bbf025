#!/usr/bin/env bash
# Counts lines of code, without blank lines and comments: what the server is made of, its
# Lua, its tests, and by folder what serves measuring, testing and generating only.
#
# Usage: .ci/size.sh
set -euo pipefail
cd "$(dirname "$0")/.."

# The folders that are not part of the server.
aside='bench store/storetest store/queue/queuetest delivery/apns/apnstest delivery/exchange/exchangetest delivery/fcm/fcmtest delivery/webpush/webpushtest openapi/gen openapi/clients clients/go docs/session'

# count reads names of files and prints how many files and lines of code there are. $1 is
# what begins a comment.
count() {
	tr '\n' '\0' | xargs -0 -r cat | awk -v comment="$1" -v name="$2" -v files="$3" '
		{ sub(/^[ \t]+/, "") }
		comment == "//" && /^\/\*/ { block = 1 }
		block { if (/\*\//) block = 0; next }
		$0 == "" || index($0, comment) == 1 { next }
		{ lines++ }
		END { printf "%-32s %5d files %7d lines\n", name, files, lines }'
}

# row prints a line for the files that are handed in.
row() {
	local names
	names=$(cat)
	count "$1" "$2" "$(grep -c . <<<"$names" || true)" <<<"$names"
}

files() { git ls-files -co --exclude-standard -- "$@" | while read -r f; do [ ! -e "$f" ] || echo "$f"; done; }
server() { grep -vE "^($(tr ' ' '|' <<<"$aside"))/"; }

files '*.go' | grep -v '_test\.go$' | server | row // 'Go, server'
files '*.lua' | server | row -- 'Lua'
files '*_test.go' | server | row // 'Go, tests'
for dir in $aside; do
	files "$dir/*.go" | row // "Go, $dir"
done
