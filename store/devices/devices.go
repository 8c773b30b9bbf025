package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fanfare/api"
	"fanfare/store/record"
)

// maxMoves is how often a write reads the owner of a token again because the token has moved. Each time
// another writer of the token was faster, so that as many writers at once all succeed.
const maxMoves = 30

// PutDevice registers a token for a user. It takes the token from another user and revives a
// dropped device. created says that the device is new for this user.
func (s *Store) PutDevice(ctx context.Context, user, token string, r *api.DeviceRequest) (*api.Device, bool, error) {
	token, err := normal(token)
	if err != nil {
		return nil, false, err
	}
	done, err := s.register(ctx, record.DeviceWrite{User: user, Token: token}, r)
	return done.Device, done.Created, err
}

// PutBrowser registers a browser for a user as PutDevice does a token, once per idempotency key. The same
// endpoint with other keys replaces them.
func (s *Store) PutBrowser(ctx context.Context, user string, r *api.BrowserRequest, once api.Idempotency) (record.Registered, error) {
	token, device := r.Device()
	return s.register(ctx, record.DeviceWrite{User: user, Token: token, Once: once}, device)
}

func (s *Store) register(ctx context.Context, w record.DeviceWrite, r *api.DeviceRequest) (done record.Registered, err error) {
	if r.Replaces != "" {
		if w.Replaces, err = normal(r.Replaces); err != nil {
			return done, err
		}
	}
	err = s.writeDevice(ctx, w, func(ctx context.Context, w record.DeviceWrite) (c record.Change, err error) {
		done, c, err = s.rec.PutDevice(ctx, w, r)
		return c, err
	})
	return done, err
}

// PutDevices registers a batch of devices, all or none, once per idempotency key, each as PutDevice
// does. The errors name the devices that would be one more than their users may have.
func (s *Store) PutDevices(ctx context.Context, list []api.DeviceEntry, once api.Idempotency) (replayed bool, err error) {
	b := record.DeviceBatch{Devices: slices.Clone(list), Tells: s.tellsDropped}
	tokens := make([]string, len(list))
	for i := range b.Devices {
		if tokens[i] = list[i].StoredToken(); tokens[i] == "" {
			return false, api.Invalid(fmt.Sprintf("devices[%d].token", i), "token", "%s", api.TokenRule)
		}
		b.Devices[i].Token = tokens[i]
	}
	// The first try expects no token of another user: few batches have one.
	for try := range maxMoves {
		if try > 0 {
			if b.Owners, err = s.rec.DeviceOwners(ctx, tokens); err != nil {
				return false, err
			}
		}
		err = s.write(ctx, b.Subjects().Users, tokens, func(ctx context.Context) (c record.Change, err error) {
			c, replayed, err = s.rec.PutDevices(ctx, b, once)
			return c, err
		})
		if !errors.Is(err, record.ErrOwnerChanged) {
			return replayed, err
		}
	}
	return false, moving()
}

// moving is the error for a token whose owner changed at each try.
func moving() error {
	return api.Errorf(api.CodeUnavailable, "the token is moving between users").Because(record.ErrOwnerChanged)
}

// DeleteDevice removes a user's device. It is no error if the device is not there or belongs to
// another user.
func (s *Store) DeleteDevice(ctx context.Context, user, token string) error {
	token, err := normal(token)
	if err != nil {
		return err
	}
	return s.write(ctx, []string{user}, []string{token}, func(ctx context.Context) (record.Change, error) {
		return s.rec.DeleteDevice(ctx, user, token)
	})
}

// Devices lists a user's devices from the record, including dropped ones.
func (s *Store) Devices(ctx context.Context, user string) (*api.DeviceList, error) {
	items, err := s.rec.Devices(ctx, user)
	if err != nil {
		return nil, err
	}
	return &api.DeviceList{Items: items}, nil
}

// MarkSuspect records that APNs refused a token once, with the reason. The device still gets
// notifications. Nothing changes if the device was registered again since registeredAt, is gone, or
// is no longer active.
func (s *Store) MarkSuspect(ctx context.Context, token, reason string, registeredAt api.Time) error {
	return s.setState(ctx, token, record.StateChange{State: api.DeviceSuspect, Reason: reason, RegisteredAt: registeredAt})
}

// MarkActive records that a suspect device got a notification, so that its refusals count from the first again.
// Nothing changes if the device was registered again since registeredAt, is gone, or was dropped.
func (s *Store) MarkActive(ctx context.Context, token string, registeredAt api.Time) error {
	return s.setState(ctx, token, record.StateChange{State: api.DeviceActive, RegisteredAt: registeredAt})
}

// Drop stops sending to a device and records reason and time. at is the time since which APNs says
// that the token is not active; zero means now. Nothing changes if the device was registered again
// since registeredAt or later than at, or is gone.
func (s *Store) Drop(ctx context.Context, token, reason string, at, registeredAt api.Time) error {
	return s.setState(ctx, token, record.StateChange{State: api.DeviceDropped, Reason: reason, At: at, RegisteredAt: registeredAt})
}

func (s *Store) setState(ctx context.Context, token string, v record.StateChange) error {
	return s.writeDevice(ctx, record.DeviceWrite{Token: token}, func(ctx context.Context, w record.DeviceWrite) (record.Change, error) {
		return s.rec.SetDeviceState(ctx, w, v)
	})
}

// writeDevice reads the owner of the token, so that the right users are marked, and starts again if
// the owner changed in the meantime. Without a user the write is made for the owner, and nothing is
// written for a token without an owner.
func (s *Store) writeDevice(ctx context.Context, w record.DeviceWrite, do func(context.Context, record.DeviceWrite) (record.Change, error)) error {
	user := w.User
	w.Tells = s.tellsDropped
	for range maxMoves {
		owner, err := s.rec.DeviceOwner(ctx, w.Token)
		if err != nil {
			return err
		}
		if w.User, w.Owner = user, owner; user == "" {
			w.User = owner
		}
		if w.User == "" {
			return nil
		}
		err = s.write(ctx, w.Users(), w.Tokens(), func(ctx context.Context) (record.Change, error) { return do(ctx, w) })
		if !errors.Is(err, record.ErrOwnerChanged) {
			return err
		}
	}
	return moving()
}

func normal(token string) (string, error) {
	t, ok := api.NormalToken(token)
	if !ok {
		return "", api.Invalid("token", "token", "%s", api.TokenRule)
	}
	return t, nil
}
