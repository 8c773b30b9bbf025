#!/usr/bin/env bash
# Tries other servers that speak Redis' protocol: the packages that depend on the server most, and the whole program
# under half a minute of faults, on one server and on a Cluster. ENGINES names the programs, or has their paths. One
# that is not there is taken from Debian's package of that name, unpacked into a temporary folder and not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/compile.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for engine in ${ENGINES:-valkey-server}; do
	name=$(basename "$engine")
	dir=$work/$name
	mkdir -p "$dir/bin"
	if ! path=$(command -v "$engine"); then
		(cd "$dir" && apt-get download "$name" "${name%-server}-tools") >/dev/null 2>&1 || true
		for package in "$dir"/*.deb; do
			[ ! -e "$package" ] || dpkg -x "$package" "$dir"
		done
		path=$dir/usr/bin/$name
	fi
	if ! version=$("$path" --version 2>/dev/null); then
		printf '== %s is not to be had here: not tried\n' "$name"
		continue
	fi
	printf '== %s\n' "$version"
	ln -s "$path" "$dir/bin/redis-server" # the name that the tests look for
	# The embedded Redis in memory is another engine, and make test tries it.
	PATH=$dir/bin:$PATH go test -count=1 -timeout 30m -skip '/^embedded$' ./store/redisdb ./store/queue ./store/stock ./store/chat
	PATH=$dir/bin:$PATH go test -count=1 -timeout 30m -run '^TestSoak(OnACluster)?$' ./e2e
done
