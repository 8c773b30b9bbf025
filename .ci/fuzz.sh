#!/usr/bin/env bash
# Runs each fuzz test FUZZTIME (20000x: so often), one after the other. By a time, such as
# 10s, Go before 1.27 sometimes fails at its end (golang/go#75804). Their seeds run with the
# ordinary tests; what fails here is kept in its package's testdata/fuzz, to be
# committed with the cure. An input that reaches new code is made smaller for at most
# 100 runs: by default it takes up to a minute, and none of the 20,000 runs meanwhile.
#
# Usage: .ci/fuzz.sh [directories, default all]
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- .

# names prints the fuzz tests of a directory.
names() { sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$1"/*_test.go | sort; }

status=0
for dir in $(grep -rl --include='*_test.go' '^func Fuzz' "$@" | xargs -n1 dirname | sort -u); do
	for name in $(names "$dir"); do
		printf '== %s %s\n' "$dir" "$name"
		go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-20000x}" -fuzzminimizetime 100x "./$dir" || status=1
	done
done
exit $status
