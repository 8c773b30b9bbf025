#!/usr/bin/env bash
# Vets and tests everything against real servers, and leaves nothing behind but
# packages. Usage: .ci/test.sh [arguments for go test]; RACE=all: everything has
# the race detector.
#
# Installs what is missing (on Debian and its kin), starts one private MariaDB
# on loopback for all packages (each test makes a database of its own; Redis
# and PostgreSQL servers are started by the tests themselves) and removes all
# of it at the end, also after a failure or an interrupt.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

work=""
mariadb_pid=""
step_pid=""
policy="" # these three are files of the system that are there only while packages are installed
clusters=""
clusters_dir=""

say() { printf '== %s\n' "$*"; }
fail() { printf 'test.sh: %s\n' "$*" >&2; exit 1; }

# stop ends a process group that this script started: politely, then for good.
stop() {
	local pid=$1
	[ -n "$pid" ] || return 0
	kill -TERM -- "-$pid" 2>/dev/null || return 0
	for _ in $(seq 50); do
		kill -0 -- "-$pid" 2>/dev/null || return 0
		sleep 0.1
	done
	kill -KILL -- "-$pid" 2>/dev/null || true
}

# allow_services removes the files by which install holds up the services of packages.
allow_services() {
	[ -z "$policy" ] || as_root rm -f "$policy"
	[ -z "$clusters" ] || as_root rm -f "$clusters"
	[ -z "$clusters_dir" ] || as_root rmdir -p --ignore-fail-on-non-empty "$clusters_dir" 2>/dev/null || true
	policy="" clusters="" clusters_dir=""
}

clean_up() {
	local status=$?
	trap '' INT TERM HUP
	trap - EXIT
	allow_services || true
	stop "$step_pid"
	stop "$mariadb_pid"
	if [ -n "$work" ]; then
		# A test that was killed may have left a small disk.
		[ ! -r /proc/self/mounts ] || awk -v "dir=$work/" 'index($2, dir) == 1 { print $2 }' /proc/self/mounts | xargs -r -n1 umount -l || true
		[ ! -s "$work/raced.log" ] || cat "$work/raced.log" # of a run that did not come to its end
		# A server of a test that was killed may still be writing its last.
		for _ in 1 2 3 4 5; do
			chmod -R u+w "$work" 2>/dev/null || true
			rm -rf "$work" 2>/dev/null && break
			sleep 0.5
		done
	fi
	exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# find prints the path of the first of the given programs that exists.
find_program() {
	local name
	for name in "$@"; do
		PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" command -v "$name" && return 0
	done
	return 1
}

# missing prints the packages whose programs are not there.
missing() {
	find_program redis-server >/dev/null || echo redis-server
	{ find_program mariadbd mysqld && find_program mariadb-install-db mysql_install_db; } >/dev/null || echo mariadb-server
	{ find_program initdb || ls /usr/lib/postgresql/[1-9][0-9]/bin/initdb; } >/dev/null 2>&1 || echo postgresql
	find_program pgbouncer >/dev/null || echo pgbouncer
	find_program chromium chromium-browser google-chrome >/dev/null || echo chromium
	find_program python3 >/dev/null || echo python3 # these two for the workers of docs/jobs.md and the programs of docs/start
	find_program node >/dev/null || echo nodejs
	find_program promtool >/dev/null || echo prometheus # its tool, for docs/monitoring
	find_program nginx >/dev/null || echo nginx # these two for docs/proxies.md
	find_program caddy >/dev/null || echo caddy
	# Root may make network namespaces, in which tests cut connections.
	find_program ip >/dev/null || echo iproute2
	# The race detector needs a C compiler.
	find_program gcc clang cc >/dev/null || echo gcc libc6-dev
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

# install adds packages. It starts no services that they bring, and makes no cluster of PostgreSQL for the system.
install() {
	command -v apt-get >/dev/null || fail "please install: $* (only Debian and its kin are served automatically)"
	as_root true 2>/dev/null || fail "please install: $* (to do that, this script needs root, or sudo without a password)"
	say "installing $*"
	if [ ! -e /usr/sbin/policy-rc.d ]; then
		policy=/usr/sbin/policy-rc.d
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
	fi
	case " $* " in *" postgresql "*)
		local dir=/etc/postgresql-common/createcluster.d
		[ -d "$dir" ] || { clusters_dir=$dir && as_root mkdir -p "$dir"; }
		clusters=$dir/fanfare-test.conf
		echo 'create_main_cluster = false' | as_root tee "$clusters" >/dev/null
		;;
	esac
	local status=0
	{
		as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
			as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
	} >"$work/apt.log" 2>&1 || status=$?
	allow_services
	if [ "$status" != 0 ]; then
		tail -n 30 "$work/apt.log" >&2
		fail "apt-get failed"
	fi
}

# scratch prints the directory for everything that is written: memory, if there is plenty of it and
# programs may run there, because SQLite and the making of tables in MariaDB wait for the disk.
scratch() {
	local memory=/dev/shm try
	if [ -z "${TMPDIR:-}" ] && [ -w "$memory" ] &&
		[ "$(df -Pk "$memory" | awk 'NR == 2 { print $4 }')" -ge $((8 << 20)) ] &&
		[ "$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)" -ge $((12 << 20)) ] && try=$(mktemp "$memory/fanfare-test.XXXXXX"); then
		printf '#!/bin/sh\n' >"$try"
		chmod 700 "$try"
		if "$try" 2>/dev/null; then
			rm -f "$try"
			echo "$memory"
			return 0
		fi
		rm -f "$try"
	fi
	echo "${TMPDIR:-/tmp}"
}

# free_port prints a loopback port that nobody listens on, below the range from
# which the kernel takes ports for outgoing connections.
free_port() {
	local port
	for _ in $(seq 200); do
		port=$((15000 + RANDOM % 15000))
		if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			echo "$port"
			return 0
		fi
	done
	return 1
}

# start_mariadb runs a small server that does not care for the disk.
start_mariadb() {
	local dir=$work/mysql port password user=()
	password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	[ "$(id -u)" != 0 ] || user=(--user=root)
	mkdir -m 700 "$dir"
	printf "CREATE USER 'fanfare'@'127.0.0.1' IDENTIFIED BY '%s';\nGRANT ALL ON *.* TO 'fanfare'@'127.0.0.1' WITH GRANT OPTION;\n" "$password" >"$dir/init.sql"
	"$(find_program mariadb-install-db mysql_install_db)" --no-defaults --datadir="$dir/data" \
		--auth-root-authentication-method=normal --skip-test-db "${user[@]}" >"$dir/install.log" 2>&1 ||
		{ cat "$dir/install.log" >&2; fail "mariadb-install-db failed"; }
	port=$(free_port) || fail "no free port"
	set -m
	"$(find_program mariadbd mysqld)" --no-defaults --datadir="$dir/data" --socket="$dir/s" --pid-file="$dir/pid" \
		--log-error="$dir/error.log" --init-file="$dir/init.sql" --bind-address=127.0.0.1 --port="$port" \
		--skip-name-resolve --skip-log-bin --performance-schema=OFF --max-connections=500 \
		--innodb-buffer-pool-size=64M --innodb-log-file-size=32M --innodb-flush-log-at-trx-commit=0 \
		--innodb-flush-method=nosync --innodb-doublewrite=OFF --loose-sync-frm=OFF --key-buffer-size=1M \
		"${user[@]}" >/dev/null 2>&1 &
	mariadb_pid=$!
	set +m
	wait_for_mariadb "$dir" "$port"
	export FANFARE_TEST_MYSQL_URL="mysql://fanfare:$password@127.0.0.1:$port/"
}

# wait_for_mariadb waits until the server says that it is ready, which it does
# after it has run the init file.
wait_for_mariadb() {
	local dir=$1 port=$2
	for _ in $(seq 600); do
		if grep -q 'ready for connections' "$dir/error.log" 2>/dev/null && (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			return 0
		fi
		kill -0 "$mariadb_pid" 2>/dev/null || break
		sleep 0.1
	done
	cat "$dir/error.log" >&2 || true
	fail "MariaDB did not start"
}

# step runs a command in a process group of its own, so that an interrupt
# reaches all of it at once.
step() {
	say "$*"
	local status=0
	set -m
	"$@" &
	step_pid=$!
	set +m
	wait "$step_pid" || status=$?
	step_pid=""
	[ "$status" = 0 ] || exit "$status"
}

# raced are the packages that have the race detector in every run: their goroutines share most memory, and it
# does not make them much slower. The others mostly share what is in Redis and SQL, of which the detector sees
# nothing, or take minutes with it.
raced=(api app delivery delivery/apns delivery/exchange delivery/fcm delivery/h2 delivery/transport delivery/webpush handlers/web
	store/batch store/chat/live store/events store/jobs store/lock store/queue/shard store/redisdb store/series store/sessions)

# run_tests tests all packages, also when some fail. Those that take longest begin first. Many run at once, those with the race
# detector beside the others, because most tests wait most of the time. The tests of the whole program follow, alone,
# because they start processes of their own.
run_tests() {
	local failed=0 raced_pid="" race=() first=("${raced[@]/#/fanfare/}") others at_once=4
	others=$(go list ./... | grep -v '/e2e$')
	if [ -n "${RACE:-}" ]; then
		race=(-race) at_once=3
	else
		others=$(grep -vxF "$(printf '%s\n' "${first[@]}")" <<<"$others")
		CGO_ENABLED=1 go test -race -vet=off -p 3 -timeout 30m "${first[@]}" "$@" >"$work/raced.log" 2>&1 &
		raced_pid=$!
	fi
	# shellcheck disable=SC2086 # others is a list of words
	go test "${race[@]}" -vet=off -p "$at_once" -timeout 30m ./delivery/targeting ./store/queue ./handlers ./store/stock ./store/sales \
		./store/record ./store/devices ./store/contacts ./store/chat ./store/erasure $others "$@" || failed=1
	if [ -n "$raced_pid" ]; then
		wait "$raced_pid" || failed=1
		cat "$work/raced.log"
		rm "$work/raced.log"
	fi
	go test "${race[@]}" -vet=off -timeout 30m -parallel $((4 * $(nproc))) ./e2e "$@" || failed=1
	return $failed
}

main() {
	case ${RACE:-} in '' | all) ;; *) fail "RACE is empty or \"all\"" ;; esac
	command -v go >/dev/null || fail "Go is not installed (https://go.dev/dl)"
	work=$(mktemp -d "$(scratch)/fanfare-test.XXXXXX")
	local packages
	packages=$(missing)
	# shellcheck disable=SC2086 # a list of words
	[ -z "$packages" ] || install $packages
	mkdir "$work/tmp"
	chmod 711 "$work" "$work/tmp" # root starts PostgreSQL as another user, who has to reach its files
	export TMPDIR=$work/tmp
	start_mariadb
	. .ci/compile.sh
	# Without the race detector as the program is built for users, so that it is not compiled once more.
	[ -n "${RACE:-}" ] || export CGO_ENABLED=0
	# The tests' own collector costs a tenth of all their time otherwise. Servers that
	# they start have an environment of their own.
	export GOGC=400
	# What it compiles, the tests use, which need no part of it again.
	step go vet ${RACE:+-race} ./...
	step run_tests "$@"
	say "passed"
}

main "$@"
