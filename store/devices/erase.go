package devices

import (
	"context"
	"fmt"

	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// Erase removes the devices, activities, opt-outs, mutes and topics that a user had when an operation began,
// and reports whether there were any. Notifications that wait for one of the devices end as device_gone. The operation is
// not done while a row of the outbox says that a guard is not written.
func (s *Store) Erase(ctx context.Context, o *record.Operation) (found bool, err error) {
	tokens, err := s.rec.Tokens(ctx, o.Subject)
	if err != nil {
		return false, fmt.Errorf("erase settings: %w", err)
	}
	err = s.write(ctx, []string{o.Subject}, tokens, func(ctx context.Context) (c record.Change, err error) {
		c, err = s.rec.EraseSettings(ctx, o)
		found = len(c.Users) > 0
		return c, err
	})
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
