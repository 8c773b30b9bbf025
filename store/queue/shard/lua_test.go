package shard_test

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// mostLua bounds the code of a script with all that it includes: Redis makes its functions
// anew for every call. One that tells facts may be longer: it is called only while facts are told.
const mostLua, mostTold = 400, 470

func TestScripts(t *testing.T) {
	t.Parallel()
	storetest.Checks(t, shard.Lua)
	for _, name := range mustLuaFiles(t) {
		script, err := redisdb.NewScript(shard.Lua, "lua/"+name)
		if err != nil {
			t.Fatal(err)
		}
		most := mostLua
		if strings.HasSuffix(name, "_told.lua") {
			most = mostTold
		}
		if n := len(codeOf(script.Source())); n > most {
			t.Errorf("%s has %d lines of code with what it includes, more than %d", name, n, most)
		}
	}
}

// TestPartsSayWhatTheyTakeAndGive: a part of a script names in its header which names it
// takes from others and which it gives them, and a script includes whatever it and its
// parts take.
func TestPartsSayWhatTheyTakeAndGive(t *testing.T) {
	t.Parallel()
	parts := map[string]part{ // of the package redisdb
		"clock.lua":       {gives: []string{"now_us", "int"}},
		"fact_append.lua": {takes: []string{"P", "int"}, gives: []string{"append_fact", "save_facts"}},
		"fact_leave.lua":  {takes: []string{"P"}, gives: []string{"leave_fact"}},
	}
	giver := map[string]string{}
	for name, p := range parts {
		for _, given := range p.gives {
			giver[given] = name
		}
	}
	for _, name := range mustLuaFiles(t) {
		if strings.HasPrefix(name, "part_") {
			parts[name] = mustPart(t, name)
			for _, given := range parts[name].gives {
				if other := giver[given]; other != "" {
					t.Errorf("%s and %s give %s", other, name, given)
				}
				giver[given] = name
			}
		}
	}
	for _, name := range mustLuaFiles(t) {
		p := mustPart(t, name)
		taken := p.uses(giver)
		if strings.HasPrefix(name, "part_") {
			slices.Sort(p.takes)
			if !slices.Equal(taken, p.takes) {
				t.Errorf("%s takes %v, its header says %v", name, taken, p.takes)
			}
			for _, given := range p.gives {
				if !slices.Contains(p.defines, given) {
					t.Errorf("%s gives %s, which it does not define", name, given)
				}
			}
			continue
		}
		for _, problem := range missing(taken, p.includes, parts) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// part is a Lua file: what its header says, and what its code does.
type part struct {
	takes, gives, includes, defines []string
	code                            []string
}

var (
	luaHeader  = regexp.MustCompile(`-- TAKES: (.*\n(?:--   .*\n)*)-- GIVES: (.*\n(?:--   .*\n)*)`)
	luaDefines = regexp.MustCompile(`^local (?:function )?([\w, ]+)`)
	luaName    = regexp.MustCompile(`(?:^|[^\w.'])([A-Za-z_]\w*)`)
	luaField   = regexp.MustCompile(`([{,])\s*\w+ = `)
	luaText    = regexp.MustCompile(`'[^']*'`)
)

func mustPart(t *testing.T, name string) (p part) {
	t.Helper()
	text, err := fs.ReadFile(shard.Lua, "lua/"+name)
	storetest.Must(t, err)
	list := func(text string) []string {
		return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \n-", r) })
	}
	if strings.HasPrefix(name, "part_") {
		m := luaHeader.FindStringSubmatch(string(text))
		if m == nil {
			t.Fatalf("%s: its header has no TAKES and GIVES", name)
		}
		p.takes, p.gives = list(m[1]), list(m[2])
		p.takes = slices.DeleteFunc(p.takes, func(name string) bool { return name == "nothing" })
	}
	for line := range strings.Lines(string(text)) {
		if file, ok := strings.CutPrefix(line, "-- @include lua/"); ok {
			p.includes = append(p.includes, strings.TrimSpace(file))
		}
		if m := luaDefines.FindStringSubmatch(line); m != nil {
			p.defines = append(p.defines, list(m[1])...)
		}
	}
	p.code = codeOf(string(text))
	return p
}

// codeOf gives the lines that are neither empty nor comments.
func codeOf(text string) (code []string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "--")
		if strings.TrimSpace(line) != "" {
			code = append(code, line)
		}
	}
	return code
}

// uses lists the names of other files in the code, sorted.
func (p part) uses(giver map[string]string) (names []string) {
	for _, line := range p.code {
		line = luaField.ReplaceAllString(luaText.ReplaceAllString(line, ""), "$1 ")
		for _, m := range luaName.FindAllStringSubmatch(line, -1) {
			if giver[m[1]] != "" && !slices.Contains(p.defines, m[1]) && !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
	}
	slices.Sort(names)
	return names
}

// missing tells what a script with these includes lacks: each part may take only what
// stands before it.
func missing(taken, includes []string, parts map[string]part) (problems []string) {
	var given []string
	for _, name := range includes {
		for _, want := range parts[name].takes {
			if !slices.Contains(given, want) {
				problems = append(problems, fmt.Sprintf("%s takes %s, which nothing before it gives", name, want))
			}
		}
		given = append(given, parts[name].gives...)
	}
	for _, want := range taken {
		if !slices.Contains(given, want) {
			problems = append(problems, "it takes "+want+", which no part gives")
		}
	}
	return problems
}

func mustLuaFiles(t *testing.T) (names []string) {
	t.Helper()
	entries, err := fs.ReadDir(shard.Lua, "lua")
	storetest.Must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
