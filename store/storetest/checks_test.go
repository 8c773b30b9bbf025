package storetest_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"fanfare/store/storetest"
)

const header = `-- Does a thing.
-- KEYS: 1 the record, 2 the list
-- ARGV: 1 the id, 2 a number, then pairs of name and value
-- RETURNS: 1 done, 0 not
`

const body = "local record, list, id, n = KEYS[1], KEYS[2], ARGV[1], ARGV[2]\n"

// ownHeader is of a script with arguments behind those of an included file.
const ownHeader = "-- Does.\n-- KEYS: none\n-- ARGV: 1 the id, 2 a number, after those of part.lua\n-- RETURNS: 1\n-- @include lua/part_own.lua\n"

// TestCheckScript breaks each rule once.
func TestCheckScript(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"lua/part.lua": {Data: []byte("local record = KEYS[1]\n")}, "lua/part_own.lua": {Data: []byte("local most, age, OWN = ARGV[1], ARGV[2], 3\n")}}
	for _, c := range []struct{ name, text, problem string }{
		{"fine", header + body, ""},
		{"fine with brackets", "-- Does.\n-- KEYS[1] record\n-- ARGV none\n-- RETURNS 1\nreturn KEYS[1]\n", ""},
		{"fine rest", header + body + "return ARGV[3] .. ARGV[4]\n", ""},
		{"fine dynamic", "-- Does.\n-- KEYS: none\n-- ARGV: 1.. ids\n-- RETURNS: 1\nfor i = 1, #ARGV do f(ARGV[i]) end\n", ""},
		{"fine by include", "-- Does.\n-- KEYS: 1 record\n-- ARGV: none\n-- RETURNS: 1\n-- @include lua/part.lua\nreturn 1\n", ""},
		{"fine with own arguments", ownHeader + "local a, b = unpack(ARGV, OWN)\n", ""},
		{"own argument not listed", ownHeader + "local a, b, c = unpack(ARGV, OWN)\n", "ARGV[3] is not in the header"},
		{"own argument not used", ownHeader + "local a = unpack(ARGV, OWN)\n", "ARGV[2] of the header is not used"},
		{"no purpose", strings.SplitAfterN(header, "\n", 2)[1] + body, "purpose"},
		{"no KEYS", "-- Does.\n-- ARGV: none\n-- RETURNS: 1\nreturn 1\n", "no section KEYS"},
		{"no ARGV", "-- Does.\n-- KEYS: none\n-- RETURNS: 1\nreturn 1\n", "no section ARGV"},
		{"no RETURNS", "-- Does.\n-- KEYS: none\n-- ARGV: none\nreturn 1\n", "no section RETURNS"},
		{"key not listed", header + body + "return KEYS[3]\n", "line 6: KEYS[3] is not in the header"},
		{"key not used", header + strings.ReplaceAll(body, "KEYS[2]", "nil"), "KEYS[2] of the header is not used"},
		{"argument not listed", strings.Replace(header, ", then pairs", ", pairs", 1) + body + "return ARGV[3]\n", "ARGV[3] is not in the header"},
		{"argument not used", header + strings.ReplaceAll(body, "ARGV[2]", "0"), "ARGV[2] of the header is not used"},
		{"none listed", "-- Does.\n-- KEYS: none\n-- ARGV: none\n-- RETURNS: 1\nreturn unpack(ARGV)\n", "the header lists none"},
		{"range by score", header + body + "redis.call('ZRANGEBYSCORE', list, 0, 1)\n", "needs LIMIT"},
		{"limited range by score", header + body + "redis.call('ZRANGEBYSCORE', list, 0, 1,\n  'LIMIT', 0, 9)\n", ""},
		{"stream", header + body + "redis.call('XRANGE', list, '-', '+')\n", "needs COUNT"},
		{"limited stream", header + body + "redis.call('XRANGE', list, '-', '+', 'COUNT', 5)\n", ""},
		{"whole list", header + body + "redis.call('LRANGE', list, 0, -1)\n", "reads all of a key"},
		{"part of a list", header + body + "redis.call('LRANGE', list, 0, -10)\n", ""},
		{"whole hash", header + body + "redis.call('HGETALL', record)\n", "has no bound"},
		{"excused hash", header + body + "redis.call('HGETALL', record) -- bounded: eight counters\n", ""},
		{"excused above", header + body + "-- bounded: eight counters\nredis.call('HGETALL', record)\n", ""},
		{"while", header + body + "while true do end\n", "is a loop without a limit"},
		{"publish", header + body + "redis.call('PUBLISH', id, n)\n", "use redis.pcall"},
		{"publish by another name", header + body + "call('SPUBLISH', id, n)\n", "use redis.pcall"},
		{"publish that may fail", header + body + "redis.pcall('PUBLISH', id, n)\n", ""},
		{"comment is not code", header + body + "-- HGETALL 'hgetall' KEYS[7]\n", ""},
		{"long", header + body + strings.Repeat("n = n + 1\n", 90), "more than 90"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := storetest.CheckScript(c.text, files)
			if c.problem == "" && len(got) > 0 {
				t.Errorf("got %q, want none", got)
			}
			if c.problem != "" && !slices.ContainsFunc(got, func(p string) bool { return strings.Contains(p, c.problem) }) {
				t.Errorf("got %q, want %q", got, c.problem)
			}
		})
	}
}
