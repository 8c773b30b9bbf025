package redisdb

import (
	"strconv"

	"fanfare/api"
)

// MatchText writes the condition of a change for lua/match.lua.
func MatchText(m api.Match) string {
	switch {
	case m.Absent:
		return "absent"
	case m.Version == api.AnyVersion:
		return "*"
	case m.Version != 0:
		return listed(append([]int64{m.Version}, m.Others...))
	case len(m.Except) > 0:
		return "!" + listed(m.Except)
	}
	return ""
}

func listed(versions []int64) string {
	b := []byte{','}
	for _, v := range versions {
		b = append(strconv.AppendInt(b, v, 10), ',')
	}
	return string(b)
}
