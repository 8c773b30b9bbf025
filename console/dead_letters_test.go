package console

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"fanfare/api"
)

// J9: a filter counts the groups that the routes choose by it, and a group links to its own letters.
func TestJ9_GroupsOfQueues(t *testing.T) {
	t.Parallel()
	groups := []api.DeadLetterGroup{
		{Kind: api.DeadJob, Reason: "max_attempts", Type: "send", Queue: "emails", Count: 1},
		{Kind: api.DeadJob, Reason: "max_attempts", Type: "send", Queue: "emails/out", Count: 2},
		{Kind: api.DeadJob, Reason: api.DeadLetterRest, Count: 4},
		{Kind: "notification", Reason: "BadTopic", Type: "send", App: "emails/production", Count: 8},
	}
	for query, want := range map[string]allLetters{
		"":                          {Count: 15},
		"queue=emails":              {Count: 1, AtLeast: true},
		"queue=emails&app=emails":   {},
		"app=emails":                {Count: 8},
		"kind=notification":         {Count: 8},
		"kind=job&queue=emails/out": {Count: 2, AtLeast: true},
		"type=send":                 {Count: 11, AtLeast: true},
	} {
		var err error
		got := allLetters{}
		if got.Filter, err = url.ParseQuery(query); err != nil {
			t.Fatal(err)
		}
		for i := range groups {
			got.add(&groups[i])
		}
		if got.Count != want.Count || got.AtLeast != want.AtLeast {
			t.Errorf("%s: %d, at least %v", query, got.Count, got.AtLeast)
		}
	}
	for i, want := range []string{
		"dead-letters?kind=job&queue=emails&reason=max_attempts&type=send", "dead-letters?kind=job&queue=emails%2Fout&reason=max_attempts&type=send", "",
		"dead-letters?app=emails%2Fproduction&kind=notification&reason=BadTopic&type=send",
	} {
		if got := linkOf(&groups[i]); got != want {
			t.Errorf("%+v links to %s", groups[i], got)
		}
	}
}

// A payload is written over several lines, but not if that makes a page of many megabytes of it.
func TestN20_LongPayloads(t *testing.T) {
	t.Parallel()
	if got, want := pretty(json.RawMessage(`{"a":[1,{"b":"},{[\\\""}]}`)), "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"},{[\\\\\\\"\"\n    }\n  ]\n}"; got != want {
		t.Errorf("%s", got)
	}
	const n = 30 << 10
	flat, deep := "["+strings.Repeat("1,", n)+"1]", strings.Repeat("[", n/4)+strings.Repeat("]", n/4)
	if got := pretty(json.RawMessage(flat)); strings.Count(got, "\n") != n+2 {
		t.Errorf("a long list has %d lines", strings.Count(got, "\n")+1)
	}
	if got := pretty(json.RawMessage(deep)); got != deep {
		t.Errorf("%d bytes became %d", len(deep), len(got))
	}
}
