package usertokens

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"fanfare/api"
	"fanfare/store/record"
)

// EraseTickets deletes, among keys of Redis, the tickets of a user whose token was issued before an
// operation began, and counts them. They open nothing any more.
func (s *Store) EraseTickets(ctx context.Context, o *record.Operation, keys []string) (n int64, err error) {
	tickets := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !strings.HasPrefix(key, ticketPrefix) })
	return s.db.DeleteIfValues(ctx, tickets, func(value string) bool {
		var u api.User
		return json.Unmarshal([]byte(value), &u) == nil && u.ID == o.Subject && u.IssuedAt.UnixMilli() <= o.Since
	})
}
