# Builds the program for the tests of clients and exports its path as FANFARE_PROGRAM, unless it is exported already.
# Scripts read it in the root of the repository: . .ci/program.sh
if [ -z "${FANFARE_PROGRAM:-}" ]; then
	. .ci/compile.sh
	export FANFARE_PROGRAM=$PWD/.tmp/clients/program
	CGO_ENABLED=0 go build -trimpath -o "$FANFARE_PROGRAM" .
fi
