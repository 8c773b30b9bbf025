package storetest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxLuaLines is the length from which a body is certainly too long, because Redis does nothing
// else while it runs. The guideline is 60.
const maxLuaLines = 90

// Checks reads every Lua file of a package and fails the test for each violation of the rules of
// CheckScript, with its line.
func Checks(t testing.TB, fsys fs.FS) {
	t.Helper()
	found := 0
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".lua" {
			return err
		}
		found++
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		for _, problem := range CheckScript(string(text), fsys) {
			t.Errorf("%s: %s", name, problem)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("read the scripts: %v", err)
	}
	if found == 0 {
		t.Error("there is no Lua file to check")
	}
}

// CheckScript finds violations of the rules for a script. The file systems have the files that it
// includes. The rules:
//
//   - it begins with a header of comments: the purpose, then KEYS, ARGV and
//     RETURNS;
//   - the header lists arguments by number ("KEYS: 1 the record, 2 the list" or
//     "KEYS[1] the record"); "then", "and on" or "3.." begin a rest of any number;
//   - every KEYS[n] and ARGV[n] of the body is in the header, and every one of
//     the header is used; "local a, b = unpack(ARGV, OWN)" uses 1 and 2, counted
//     from where an included file's arguments end;
//   - ranges have a limit, there is no while and no repeat, and no command that
//     reads all of something, unless "-- bounded: <why>" stands on the line or
//     above it;
//   - PUBLISH is called by pcall: a user of Redis without rights to the channel must not end a
//     script midway;
//   - the body is not much longer than 60 lines.
func CheckScript(text string, fsys fs.FS) []string {
	s := readScript(text, fsys)
	problems := s.headerProblems()
	for _, name := range []string{"KEYS", "ARGV"} {
		problems = append(problems, s.argumentProblems(name)...)
	}
	problems = append(problems, s.rangeProblems()...)
	if s.code > maxLuaLines {
		problems = append(problems, fmt.Sprintf("the body has %d lines, more than %d", s.code, maxLuaLines))
	}
	return problems
}

// script is a Lua file in its parts.
type script struct {
	purpose  bool
	sections map[string]string // KEYS, ARGV, RETURNS: their text
	raw      []string          // lines of the body
	body     []string          // the same lines without comments
	offset   int               // lines before the body
	code     int               // lines of the body that are not empty
	included []string          // lines of the included files, without comments
	partial  bool              // an included file is not in the file system
}

var section = regexp.MustCompile(`^--\s*(KEYS|ARGV|RETURNS)\b`)

const includeLine = "-- @include "

// readScript separates the comments at the top from the rest.
func readScript(text string, fsys fs.FS) *script {
	s := &script{sections: map[string]string{}}
	lines := strings.Split(text, "\n")
	current := ""
	for s.offset < len(lines) && strings.HasPrefix(lines[s.offset], "--") && !strings.HasPrefix(lines[s.offset], includeLine) {
		line := lines[s.offset]
		s.offset++
		if m := section.FindStringSubmatch(line); m != nil {
			current = m[1]
		}
		s.purpose = s.purpose || current == "" && strings.Trim(line, "- ") != ""
		s.sections[current] += line + "\n"
	}
	s.raw = lines[s.offset:]
	for _, line := range s.raw {
		code, _, _ := strings.Cut(line, "--")
		s.body = append(s.body, code)
		if strings.TrimSpace(code) != "" {
			s.code++
		}
		if name, ok := strings.CutPrefix(line, includeLine); ok {
			s.include(strings.TrimSpace(name), fsys)
		}
	}
	return s
}

// include adds another file's lines, to find the arguments that they use.
func (s *script) include(name string, fsys fs.FS) {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		s.partial = true
		return
	}
	for line := range strings.Lines(string(text)) {
		code, _, _ := strings.Cut(line, "--")
		s.included = append(s.included, code)
	}
}

func (s *script) headerProblems() []string {
	var problems []string
	if !s.purpose {
		problems = append(problems, "the header does not begin with the purpose")
	}
	for _, name := range []string{"KEYS", "ARGV", "RETURNS"} {
		if _, ok := s.sections[name]; !ok {
			problems = append(problems, "the header has no section "+name)
		}
	}
	return problems
}

// argumentProblems compares the header's list of KEYS or ARGV with the body.
func (s *script) argumentProblems(name string) []string {
	listed, highest, rest := listedIn(s.sections[name])
	used, dynamic := usedOf(name, s.body)
	var problems []string
	for n, line := range used {
		if !listed[n] && (!rest || n < highest) {
			problems = append(problems, fmt.Sprintf("line %d: %s[%d] is not in the header", s.offset+line, name, n))
		}
	}
	if dynamic && highest == 0 && !rest {
		problems = append(problems, name+" is used as a whole, but the header lists none")
	}
	elsewhere, dynamicThere := usedOf(name, s.included)
	if name == "ARGV" && slices.ContainsFunc(s.body, ownArguments.MatchString) {
		elsewhere = nil // the header lists the script's own
	}
	for n := range listed {
		if used[n] == 0 && elsewhere[n] == 0 && !dynamic && !dynamicThere && !s.partial {
			problems = append(problems, fmt.Sprintf("%s[%d] of the header is not used", name, n))
		}
	}
	return problems
}

var (
	number       = regexp.MustCompile(`(?m)(?:^--\s+|[:,\[]\s*)(\d+)(?:\]|\.\.|\s)`)
	restOfAny    = regexp.MustCompile(`\bthen\b|\band on\b|\d\.\.`)
	indexedInLua = regexp.MustCompile(`\b(KEYS|ARGV)\s*\[\s*([^\]]+?)\s*\]`)
	ownArguments = regexp.MustCompile(`^\s*local ([\w, ]+) = (?:tonumber\()?unpack\(ARGV, OWN\)`)
	wholeInLua   = regexp.MustCompile(`\b(KEYS|ARGV)\b\s*(?:[^\[\s]|$)`)
)

// listedIn returns the numbers in a section, the highest number, and whether a rest of any length
// follows.
func listedIn(text string) (listed map[int]bool, highest int, rest bool) {
	listed = map[int]bool{}
	for _, m := range number.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		listed[n] = true
		highest = max(highest, n)
	}
	return listed, highest, restOfAny.MatchString(text)
}

// usedOf returns the first line (from 1) of each constant index, and whether there are indexes that
// are known only when the script runs.
func usedOf(name string, lines []string) (used map[int]int, dynamic bool) {
	used = map[int]int{}
	for i, line := range lines {
		if m := ownArguments.FindStringSubmatch(line); m != nil && name == "ARGV" {
			for n := range strings.Count(m[1], ",") + 1 {
				used[n+1] = i + 1
			}
			continue
		}
		for _, m := range indexedInLua.FindAllStringSubmatch(line, -1) {
			if m[1] != name {
				continue
			}
			n, err := strconv.Atoi(m[2])
			dynamic = dynamic || err != nil
			if err == nil && used[n] == 0 {
				used[n] = i + 1
			}
		}
		for _, m := range wholeInLua.FindAllStringSubmatch(line, -1) {
			dynamic = dynamic || m[1] == name
		}
	}
	return used, dynamic
}

// unbounded has the calls whose cost grows with the data, and the options that limit them.
var unbounded = []struct {
	call, bound *regexp.Regexp
	message     string
}{
	{regexp.MustCompile(`(?i)["'](zrangebyscore|zrevrangebyscore|zrangebylex|zrevrangebylex)["']`), regexp.MustCompile(`(?i)["']limit["']`), "needs LIMIT"},
	{regexp.MustCompile(`(?i)["'](xrange|xrevrange|xread|xreadgroup|xautoclaim)["']`), regexp.MustCompile(`(?i)["']count["']`), "needs COUNT"},
	{regexp.MustCompile(`(?i)["'](lrange|zrange|zrevrange)["'].*,\s*["']?0["']?\s*,\s*["']?-1\b`), nil, "reads all of a key"},
	{regexp.MustCompile(`(?i)["'](keys|scan|hgetall|smembers|hkeys|hvals|sscan|hscan|zscan|flushall|flushdb|sort)["']`), nil, "has no bound"},
	{regexp.MustCompile(`^\s*(while|repeat)\b`), nil, "is a loop without a limit: use for"},
	{regexp.MustCompile(`(?i)\bcall\(\s*["']s?publish["']`), nil, "may be refused after other commands had their effect: use redis.pcall"},
}

// excuse allows an exception, with its reason.
const excuse = "-- bounded:"

func (s *script) rangeProblems() []string {
	var problems []string
	for i := range s.body {
		for _, u := range unbounded {
			if found := u.call.FindString(s.body[i]); found != "" && !s.boundedAt(i, u.bound) {
				problems = append(problems, fmt.Sprintf("line %d: %s %s", s.offset+i+1, strings.TrimSpace(found), u.message))
			}
		}
	}
	return problems
}

// boundedAt looks for the excuse, or for the limit in the statement, which may have three lines.
func (s *script) boundedAt(i int, bound *regexp.Regexp) bool {
	if strings.Contains(s.raw[i], excuse) || i > 0 && strings.Contains(s.raw[i-1], excuse) {
		return true
	}
	return bound != nil && bound.MatchString(strings.Join(s.body[i:min(i+3, len(s.body))], " "))
}
