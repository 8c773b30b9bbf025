package web

import (
	"fmt"
	"testing"
)

func TestParseTags(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		`"7"`:           `[{7 false}] true`,
		`W/"7"`:         `[{7 true}] true`,
		`"a", "b c"`:    `[] false`, // there is no blank in a tag
		`"a",,W/"b,c",`: `[{a false} {b,c true}] true`,
		`"é"`:           `[{é false}] true`,
		``:              `[] false`,
		` , `:           `[] false`,
		`7`:             `[] false`,
		`"7`:            `[] false`,
		`w/"7"`:         `[] false`,
		`W/ "7"`:        `[] false`,
		`"7" "8"`:       `[] false`,
		`"7", *`:        `[] false`,
		`*`:             `[] false`,
		"\"a\tb\"":      `[] false`,
		"\"\x7f\"":      `[] false`,
		`"7"x, "8"`:     `[] false`,
	} {
		tags, ok := ParseTags(list)
		if got := fmt.Sprint(tags, " ", ok); got != want {
			t.Errorf("%q: %s, want %s", list, got, want)
		}
	}
}

func TestTagVersion(t *testing.T) {
	t.Parallel()
	for opaque, want := range map[string]int64{
		"7": 7, "7-0123456789abcdef": 7, "9007199254740993": 9007199254740993,
		"": 0, "0": 0, "-1": 0, "+7": 0, "07": 0, "x": 0, "7-": 0, "7-0123456789ABCDEF": 0, "7-0123": 0, "7-0123456789abcdef-": 0,
		"99999999999999999999": 0,
	} {
		if got := (Tag{Opaque: opaque}).Version(); got != want {
			t.Errorf("%q: %d, want %d", opaque, got, want)
		}
	}
}
