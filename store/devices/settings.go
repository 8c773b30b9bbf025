package devices

import (
	"context"

	"fanfare/api"
	"fanfare/store/record"
)

// PutOptOut ends notifications of this type for the user.
func (s *Store) PutOptOut(ctx context.Context, user, typ string) error {
	return s.writeUser(ctx, user, func(ctx context.Context) (record.Change, error) {
		return s.rec.PutOptOut(ctx, user, typ)
	})
}

// DeleteOptOut ends an opt-out. If there is none, nothing changes.
func (s *Store) DeleteOptOut(ctx context.Context, user, typ string) error {
	return s.writeUser(ctx, user, func(ctx context.Context) (record.Change, error) {
		return s.rec.DeleteOptOut(ctx, user, typ)
	})
}

// PutMute ends notifications about this object, until r.Until if it is given. A nil r mutes without
// an end.
func (s *Store) PutMute(ctx context.Context, user, object string, r *api.MuteRequest) error {
	var until *api.Time
	if r != nil {
		until = r.Until
	}
	return s.writeUser(ctx, user, func(ctx context.Context) (record.Change, error) {
		return s.rec.PutMute(ctx, user, object, until)
	})
}

// DeleteMute ends a mute. If there is none, nothing changes.
func (s *Store) DeleteMute(ctx context.Context, user, object string) error {
	return s.writeUser(ctx, user, func(ctx context.Context) (record.Change, error) {
		return s.rec.DeleteMute(ctx, user, object)
	})
}

// Settings reads a user's opt-outs, mutes and devices from the record.
func (s *Store) Settings(ctx context.Context, user string) (*api.NotificationSettings, error) {
	return s.rec.Settings(ctx, user)
}

func (s *Store) writeUser(ctx context.Context, user string, do func(context.Context) (record.Change, error)) error {
	return s.write(ctx, []string{user}, nil, do)
}
