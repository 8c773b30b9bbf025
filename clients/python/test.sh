#!/usr/bin/env bash
# Installs the client in Python as its users do, and tests it against real servers, also with the code of its README.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec </dev/null

say() { printf '== the client in Python: %s\n' "$*"; }

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
	say "skipped, since there is no Python 3.9 or newer (https://python.org)"
	exit 0
fi

work=$PWD/.tmp/client-python
rm -rf "$work/source" "$work/installed"
mkdir -p "$work"
if "$python" -c 'import setuptools, wheel, pip; assert int(setuptools.__version__.split(".")[0]) >= 61' 2>/dev/null; then
	say "pip install"
	cp -r clients/python "$work/source" # pip builds in the folder
	"$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-index --no-build-isolation \
		--target "$work/installed" "$work/source"
	export PYTHONPATH=$work/installed
else
	say "pip, setuptools or wheel is missing: the sources are tested as they are"
	export PYTHONPATH=$PWD/clients/python/src
fi

. .ci/program.sh

say "tests with $("$python" --version)"
export FANFARE_OPENAPI=$PWD/openapi/openapi.json FANFARE_README=$PWD/clients/python/README.md PYTHONDONTWRITEBYTECODE=1
cd clients/python/test
exec "$python" -W ignore::ResourceWarning -m unittest "$@" # clients leave their idle connections to the collector
