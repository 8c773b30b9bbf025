#!/usr/bin/env bash
# Runs each fuzz test for FUZZTIME, one after the other. Their seeds run with the
# ordinary tests; what fails here is kept in its package's testdata/fuzz, to be
# committed with the cure.
#
# Usage: .ci/fuzz.sh [quick] [directories, default all]
#
# quick takes the binaries that `make test` has compiled: nothing is compiled anew,
# and mutations are not guided by what they cover. FUZZTIME is 2s then, else 10s.
set -euo pipefail
cd "$(dirname "$0")/.."

quick=""
if [ "${1:-}" = quick ]; then
	quick=yes
	shift
fi
[ $# -gt 0 ] || set -- .
time=${FUZZTIME:-10s}
[ -z "$quick" ] || time=${FUZZTIME:-2s}
work=$(mktemp -d "${TMPDIR:-/tmp}/fanfare-fuzz.XXXXXX")
trap 'rm -rf "$work"' EXIT

# names prints the fuzz tests of a directory.
names() { sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$1"/*_test.go | sort; }

# fuzz runs one test of a directory.
fuzz() {
	if [ -z "$quick" ]; then
		go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" "./$1"
	else
		(cd "$1" && "$work/test" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$time" -test.fuzzcachedir "$work/cache")
	fi
}

# The same flags as test.sh, so that nothing is compiled twice.
[ -z "$quick" ] || export GOFLAGS="${GOFLAGS:-} -gcflags=modernc.org/...=-race=false -gcflags=github.com/yuin/gopher-lua/...=-race=false"
status=0
for dir in $(grep -rl --include='*_test.go' '^func Fuzz' "$@" | xargs -n1 dirname | sort -u); do
	[ -z "$quick" ] || go test -race -c -o "$work/test" "./$dir"
	for name in $(names "$dir"); do
		printf '== %s %s\n' "$dir" "$name"
		fuzz "$dir" "$name" || status=1
	done
done
exit $status
