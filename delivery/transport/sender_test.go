package transport

import (
	"testing"
	"time"
)

func TestAnswerDrops(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_500)
	for _, row := range []struct {
		name       string
		answer     Answer
		registered time.Time
		want       bool
	}{
		{"registered before", Answer{Outcome: DropDevice, GoneAt: at}, at.Add(-time.Millisecond), true},
		{"registered in the same millisecond", Answer{Outcome: DropDevice, GoneAt: at}, at.Add(900 * time.Microsecond), true},
		{"registered a millisecond later", Answer{Outcome: DropDevice, GoneAt: at}, at.Add(time.Millisecond), false},
		{"no timestamp", Answer{Outcome: DropDevice}, at, true},
		{"another outcome", Answer{Outcome: SuspectDevice}, at, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got := row.answer.Drops(row.registered); got != row.want {
				t.Fatalf("got %v", got)
			}
		})
	}
}

func TestOutcomeNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for o := Delivered; o <= NoApp; o++ {
		if name := o.String(); name == "invalid" || seen[name] {
			t.Errorf("%d is called %q", o, name)
		} else {
			seen[name] = true
		}
	}
	if Outcome(0).String() != "invalid" || Outcome(200).String() != "invalid" {
		t.Error("what is no outcome has a name")
	}
}
