package fanfare

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A POST has a new Idempotency-Key exactly where the contract takes one.
func TestKeysOfPosts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../openapi/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct{ Parameters json.RawMessage }
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	names, posts := regexp.MustCompile(`\{\w+\}`), 0
	for path, calls := range document.Paths {
		post, ok := calls["post"]
		if !ok {
			continue
		}
		posts++
		if takes := strings.Contains(string(post.Parameters), "Idempotency-Key"); secret(names.ReplaceAllString(path, "x")) == takes {
			t.Errorf("%s: the contract takes a key: %v", path, takes)
		}
	}
	if posts < 30 {
		t.Errorf("only %d POSTs were found", posts)
	}
}
