package stock

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// FuzzStored reads reservations, transfers and numbers as they stand in Redis. What is
// read is written the same.
func FuzzStored(f *testing.F) {
	for _, seed := range []string{"", "h|bob|1|2|0||a=1,b=2", "s|bob|1|2|3|x|a=1", "h|||||| ", "hh|u|1|1|1||", "x|u|1|1|1||a=1", "\x00||0|0|0||", "h|u|x|1|1||", "1|2|a=1,b=-2", "1|2|", "|", "1 2 3 4", "1 x", "a=1=2,,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := parseStored("r", text); err == nil && !strings.ContainsRune("hsre", rune(r.state)) {
			t.Fatalf("%q has the state %q", text, r.state)
		}
		lines := parseLines(text)
		if again := parseLines(linesText(lines)); !reflect.DeepEqual(lines, again) {
			t.Fatalf("%q has the lines %v, and read again %v", text, lines, again)
		}
		if tr, ok := parseTransfer(nil, "", "t", text); ok {
			again, ok := parseTransfer(nil, "", "t", strings.Join([]string{strconv.FormatInt(tr.at, 10), strconv.Itoa(tr.to), tr.lines}, "|"))
			if !ok || again != tr {
				t.Fatalf("%q is %+v, and read again %+v", text, tr, again)
			}
		}
		_ = parseNumbers(text)
	})
}
