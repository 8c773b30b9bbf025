package web

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"fanfare/api"
)

// Page has the parameters of a request for one page of a list.
type Page struct {
	Limit  int64  `query:"limit" default:"50" validate:"min=1,max=500"`
	Cursor string `query:"cursor" validate:"max=4096"`
}

// PageOf cuts the requested page out of items, which are in the order of their names, and returns the
// cursor of the next page, "" at the end. A cursor holds the last name of its page, so that it stays
// right when items are added or removed.
func PageOf[T any](p Page, items []T, name func(*T) string) ([]T, string, error) {
	after, err := OpenCursor(p.Cursor)
	if err != nil {
		return nil, "", err
	}
	start := 0
	if after != "" {
		start = len(items)
		if i := slices.IndexFunc(items, func(t T) bool { return name(&t) > after }); i >= 0 {
			start = i
		}
	}
	rest := items[start:]
	if int64(len(rest)) <= p.Limit {
		return rest, "", nil
	}
	rest = rest[:p.Limit]
	return rest, SealCursor(name(&rest[len(rest)-1])), nil
}

// ReadPage reads the wanted page of a list that a store has in the order of names, which are
// identifiers or objects. of says whose list it is.
func ReadPage[T any](ctx context.Context, p Page, read func(ctx context.Context, of, after string, limit int) ([]T, error), of string, name func(*T) string) ([]T, string, error) {
	after, err := OpenCursor(p.Cursor)
	if err == nil && after != "" && !api.ValidObject(after) {
		err = BadCursor()
	}
	if err != nil {
		return nil, "", err
	}
	limit := int(p.Limit)
	items, err := read(ctx, of, after, limit+1)
	if err != nil || len(items) <= limit {
		return items, "", err
	}
	return items[:limit], SealCursor(name(&items[limit-1])), nil
}

// SealCursor makes the content of a cursor opaque to callers. "", which is no cursor, stays "".
func SealCursor(inner string) string {
	if inner == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte("1" + inner))
}

// OpenCursor reads the content of a cursor that SealCursor made.
func OpenCursor(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	inner, err := base64.RawURLEncoding.DecodeString(cursor)
	text, known := strings.CutPrefix(string(inner), "1")
	if err != nil || !known {
		return "", BadCursor()
	}
	return text, nil
}

// BadCursor is the error for a cursor that OpenCursor could not read, or whose content is not from the
// list.
func BadCursor() error {
	return api.Invalid("cursor", "cursor", "is not a cursor that a list gave as next")
}
