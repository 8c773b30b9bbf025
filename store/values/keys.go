package values

import (
	"hash/fnv"
	"strconv"
	"time"
)

const (
	// groups is how many slots the names of a kind are spread over. Nothing may change it: names would be lost.
	groups = 64
	// groupNames bounds the names of a group. A million names make 15,625 a group, and chance adds less than 5 %.
	groupNames = 16_384
	// keepRun is longer than a command may be under way.
	keepRun = 10 * time.Minute
)

// groupOf is the group of a name.
func groupOf(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return int(h.Sum32() % groups)
}

// prefix begins every key of a group.
func prefix(kind string, group int) string {
	return "ff:{" + kind + "." + strconv.Itoa(group) + "}:"
}

// key is the key of a value or a counter.
func key(kind, name string) string { return prefix(kind, groupOf(name)) + "v:" + name }

// channel tells of changes of a value.
func channel(name string) string { return key(kindValues, name) + ":changed" }
