package console

import (
	"net/url"
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
