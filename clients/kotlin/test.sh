#!/usr/bin/env bash
# Compiles the client in Kotlin with the code of its README and of the quick start for Android, and tests it against real
# servers. What is missing is installed on Debian and its kin. Usage: test.sh [parts of the names of tests]
set -euo pipefail
cd "$(dirname "$0")/../.."
exec </dev/null

say() { printf '== the client in Kotlin: %s\n' "$*"; }

if ! command -v npm >/dev/null; then
	say "skipped, since npm, which has the compiler, is not installed (https://nodejs.org)"
	exit 0
fi
json=/usr/share/java/json-android.jar # org.json as Android has it
packages=()
java -version >/dev/null 2>&1 || packages+=(default-jre-headless)
[ -e "$json" ] || packages+=(libandroid-json-org-java)
if [ ${#packages[@]} -gt 0 ]; then
	root=()
	[ "$(id -u)" = 0 ] || root=(sudo -n)
	if ! command -v apt-get >/dev/null || ! "${root[@]}" true 2>/dev/null; then
		say "skipped, since ${packages[*]} can't be installed here: that takes Debian or its kin, and root or sudo"
		exit 0
	fi
	say "installing ${packages[*]}"
	"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
	"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi

work=$PWD/.tmp/client-kotlin
rm -rf "$work/documents" "$work/classes"
mkdir -p "$work/documents"

# document makes a file of a document's code, in a package of its own, for servers that the tests start.
document() {
	local package=$1 file=$2 code
	code=$(awk '/^```kotlin$/ { code = 1; next } /^```/ { code = 0 } code' "$file" |
		sed -e 's|"https://push.example.com"|System.getProperty("fanfare.url")|' -e 's|"https://app.example.com/session"|System.getProperty("app.url") + "/session"|')
	{
		echo "package $package"
		grep '^import ' <<<"$code" | sort -u
		[ "$package" != readme ] || printf '%s\n' 'var made: () -> String? = { null }' 'fun userToken(): String? = made()'
		grep -v '^import ' <<<"$code"
	} >"$work/documents/$package.kt"
}
document readme clients/kotlin/README.md
document guide docs/start/android.md

if ! cmp -s clients/kotlin/package-lock.json "$work/node_modules/installed"; then
	say "npm ci"
	cp clients/kotlin/package.json clients/kotlin/package-lock.json "$work"
	(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
	cp clients/kotlin/package-lock.json "$work/node_modules/installed"
fi
kotlin=$work/node_modules/kotlin-compiler
say "compiling, with $(bash "$kotlin/bin/kotlinc" -version 2>&1 | tail -n 1)"
bash "$kotlin/bin/kotlinc" -Werror -jvm-target 1.8 -cp "$json" -d "$work/classes" clients/kotlin/src clients/kotlin/test "$work/documents"

. .ci/program.sh
say "tests"
export FANFARE_OPENAPI=$PWD/openapi/openapi.json
exec java -cp "$work/classes:$json:$kotlin/lib/kotlin-stdlib.jar" fanfare.TestsKt "$@"
