package jobs

import "strings"

// groups is how many slots the queues are spread over. Nothing may change it: queues would be lost.
const groups = 64

// keys are those of the scripts of a group: one whose prefix names all others, and one that never exists.
func (s *Store) keys(group int) []string {
	return []string{s.letters.KeyBeside(group, "jobs"), s.letters.KeyBeside(group, "never")}
}

// groupOf is the group of a queue.
func (s *Store) groupOf(queue string) int { return s.letters.Route(queue) }

// channel is where waiting workers are told of a queue; lua/part_save.lua has the same rule.
func (s *Store) channel(queue string) string {
	return s.letters.KeyBeside(s.groupOf(queue), "w:"+queue+"/wake")
}

// registry has the queues of a group.
func (s *Store) registry(group int) string { return s.letters.KeyBeside(group, "queues") }

// idOf is the public id of a job, and parseID reads it: the queue, and the id within it.
func idOf(queue, id string) string { return queue + "." + id }

func parseID(whole string) (queue, id string, ok bool) {
	at := strings.LastIndexByte(whole, '.')
	if at < 1 || len(whole)-at-1 != idLength {
		return "", "", false
	}
	return whole[:at], whole[at+1:], true
}
