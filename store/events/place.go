package events

import (
	"errors"

	"fanfare/api"
)

// atIndex puts the place of a bad event before the fields that its error
// names, and before its sentence.
func atIndex(err error, place string) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return err
	}
	placed := *e
	placed.Detail = place + ": " + e.Detail
	placed.Fields = make([]api.FieldError, len(e.Fields))
	for i, f := range e.Fields {
		f.Field = place + "." + f.Field
		placed.Fields[i] = f
	}
	if len(e.Fields) == 0 {
		placed.Fields = nil
	}
	return &placed
}
