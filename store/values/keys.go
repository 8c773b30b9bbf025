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

// keys are the keys of a group, by what they begin with.
type keys string

// keysOf are the keys of a group of a kind.
func keysOf(kind string, group int) keys {
	return keys("ff:{" + kind + "." + strconv.Itoa(group) + "}:")
}

// keysFor are the keys of the group of a name.
func keysFor(kind, name string) keys { return keysOf(kind, groupOf(name)) }

// content has a value or a counter; lua/part_names.lua has the same rule.
func (k keys) content(name string) string { return string(k) + "v:" + name }

// names has the names that are in use.
func (k keys) names() string { return string(k) + "names" }

// run has the last run of a process.
func (k keys) run(process string) string { return string(k) + "run:" + process }

// once has the record of an Idempotency-Key, by the key's api.Idempotency.Name.
func (k keys) once(name string) string { return string(k) + "once:" + name }

// channel tells of changes of a value; lua/part_value.lua has the same rule.
func channel(name string) string { return keysFor(kindValues, name).content(name) + ":changed" }
