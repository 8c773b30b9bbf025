package events

import (
	"errors"

	"fanfare/api"
)

// prefixError puts an event's path in its request before the fields that its error names, and
// before the error's sentence.
func prefixError(err error, path string) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return err
	}
	prefixed := *e
	prefixed.Detail = path + ": " + e.Detail
	prefixed.Fields = make([]api.FieldError, len(e.Fields))
	for i, f := range e.Fields {
		f.Field = path + "." + f.Field
		prefixed.Fields[i] = f
	}
	if len(e.Fields) == 0 {
		prefixed.Fields = nil
	}
	return &prefixed
}
