package app

import "testing"

// E6: a job names a user at any depth of its payload, and only as a whole value.
func TestE6_HasValue(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]bool{
		`{"user":"bob"}`: true, `{"fact":{"data":{"user":"bob"}}}`: true, `{"users":["al","bob"]}`: true,
		`{}`: false, `{"bob":1}`: false, `{"user":"bobby"}`: false, `{"user":"bob"`: false, `{"user":["bobby"]}`: false,
	} {
		if hasValue([]byte(object), "bob") != want {
			t.Errorf("%s: want %v", object, want)
		}
	}
}
