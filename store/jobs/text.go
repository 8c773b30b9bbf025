package jobs

import (
	"encoding/json"
	"fmt"
	"strings"
)

// fieldSep is between the fields of a job's text.
const fieldSep = "\x1f"

// jobText is what the text of a job says (part_queue.lua).
type jobText struct {
	born, from, most  int64 // from: when its age begins, if not with born; times in ms
	kind, key, unique string
	traceparent       string
	payload           json.RawMessage
}

func parseText(text string) (jobText, error) {
	head, payload, ok := strings.Cut(text, "\x00")
	f := strings.Split(head, fieldSep)
	if !ok || len(f) != 7 && len(f) != 8 {
		return jobText{}, fmt.Errorf("%.100q is no job", text)
	}
	t := jobText{born: parse(f[1]), from: parse(f[2]), kind: f[3], key: f[4], unique: f[5], most: parse(f[6])}
	if len(f) == 8 {
		t.traceparent = f[7]
	}
	if payload != "" {
		t.payload = json.RawMessage(payload)
	}
	return t, nil
}

// history is what a job has gone through (part_queue.lua).
type history struct {
	failures, lost int
	err            string
}

func parseHistory(text string) history {
	f := strings.SplitN(text, " ", 4)
	if len(f) != 4 {
		return history{}
	}
	return history{failures: int(parse(f[0])), lost: int(parse(f[1])), err: f[3]}
}
