package devices

import (
	"context"
	"fmt"

	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// Erase removes the devices, opt-outs, mutes and topics that a user had when an operation began,
// and tells whether there were any. What waits for one of the devices ends as device_gone.
func (s *Store) Erase(ctx context.Context, o *record.Operation) (found bool, err error) {
	var tokens []string
	err = s.write(ctx, []string{o.Subject}, nil, func(ctx context.Context) (c record.Change, err error) {
		c, tokens, err = s.rec.EraseSettings(ctx, o)
		found = len(c.Outbox) > 0
		return c, err
	})
	if err == nil && len(tokens) > 0 {
		err = s.writeGuards(ctx, tokens...)
	}
	if err != nil {
		return found, fmt.Errorf("erase settings: %w", err)
	}
	return found, nil
}

// Forget removes what is left of a user who has no settings: the version on record, and what is
// cached. A user who has settings, because they were made since Erase, keeps both.
func (s *Store) Forget(ctx context.Context, user string) error {
	gone, version, err := s.rec.ForgetSettings(ctx, user)
	if err != nil || !gone {
		return err
	}
	_, err = s.db.Eval(ctx, redisdb.Write, s.forget, []string{settingsKey(user)}, version)
	return err
}
