package devices

import (
	"context"

	"fanfare/api"
	"fanfare/store/record"
)

// PutActivity registers an activity for a user, and takes its token from another user as PutDevice does. created says that
// the activity is new for this user.
func (s *Store) PutActivity(ctx context.Context, user, token string, r *api.ActivityRequest) (done *api.Activity, created bool, err error) {
	own := *r
	_, own.Topic = own.Topics()
	if own.Registration != "" {
		own.Registration, _ = api.NormalToken(own.Registration)
	}
	stored, target := own.Stored(token)
	err = s.writeDevice(ctx, record.DeviceWrite{User: user, Token: stored}, func(ctx context.Context, w record.DeviceWrite) (c record.Change, err error) {
		done, created, c, err = s.rec.PutActivity(ctx, w, &own, target)
		return c, err
	})
	return done, created, err
}

// Activities lists a user's activities that have not ended, from the record, by the token under which they are kept.
func (s *Store) Activities(ctx context.Context, user string) ([]api.Device, error) {
	return s.rec.LiveActivities(ctx, user)
}

// DeleteActivity ends those of a user's activities that have a token: an Android phone may have several. With an object it
// ends that of the object alone. It is no error if there is none.
func (s *Store) DeleteActivity(ctx context.Context, user, token, object string) error {
	token, err := normal(token)
	if err != nil {
		return err
	}
	list, err := s.rec.LiveActivities(ctx, user)
	if err != nil {
		return err
	}
	var stored []string
	others := false
	for i := range list {
		a := list[i].Activity()
		if a.Token == token && (object == "" || a.Object == object) {
			stored = append(stored, list[i].Token)
		}
		others = others || a.Token == token
	}
	switch {
	case len(stored) > 0:
	case others:
		return nil
	default:
		stored = api.ActivityTokens(token) // an earlier call may have removed it, and Redis refused to know
	}
	return s.write(ctx, []string{user}, stored, func(ctx context.Context) (record.Change, error) {
		return s.rec.DeleteActivities(ctx, user, stored)
	})
}
