# How tests, and the programs that they start, are compiled. Scripts read it (. .ci/compile.sh), so that all of them
# compile in one way and nothing is compiled twice.

# These never have the race detector. They are not fanfare's own, share no memory with it, and are by far the slowest
# with it: SQLite, translated to Go, and the Lua of the embedded Redis. What uses sync.Map or sync/atomic must not be
# among them, as miniredis does: programs would be linked with its copy of that code, of which the detector knows
# nothing, and races would be reported where there are none.
for module in modernc.org github.com/yuin/gopher-lua; do
	GOFLAGS="${GOFLAGS:-} -gcflags=$module/...=-race=false"
done
# As the program for users, so that what it needs is not compiled once more for it.
export GOFLAGS="$GOFLAGS -trimpath"

# A test binary waits a second at its end for late reports of races otherwise, fifty times. And what the detector
# knows of each larger piece of memory that is allocated, it maps anew instead of clearing it, which costs the kernel
# more: the embedded Redis allocates 80 KB for a script.
export GORACE="atexit_sleep_ms=100 clear_shadow_mmap_threshold=16777216"
