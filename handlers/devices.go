package handlers

import (
	"cmp"
	"context"
	"slices"

	"fanfare/api"
	"fanfare/handlers/web"
)

type putDeviceRequest struct {
	User  string `path:"user" validate:"identifier"`
	Token string `path:"token" validate:"token"`
	Body  api.DeviceRequest
}

// putDevice registers a device.
//
//	@Summary		Register a device
//	@Description	Call this whenever the app starts, with the device token that it got from APNs (hex, in upper or lower case) or
//	@Description	the registration token or installation id that it got from FCM. A device of APNs has an environment, and no other has.
//	@Description	Registering again revives a device that its push service had declared gone. A token that belonged to another user leaves
//	@Description	that user. A user can have at most 50 devices. With a user token, there must be an app for the topic and
//	@Description	environment. The locale chooses among the texts that event types have in several languages; without one the
//	@Description	device gets the default texts.
//	@Tags			push
//	@ID				putDevice
//	@Accept			json
//	@Produce		json
//	@Param			user	path		string				true	"The user"
//	@Param			token	path		string				true	"The device token of APNs, hex, or the token or installation id of FCM"
//	@Param			device	body		api.DeviceRequest	true	"How to send to the device"
//	@Success		200		{object}	api.Device			"Registered again"
//	@Success		201		{object}	api.Device			"Registered"
//	@Failure		422		{object}	api.Problem			"validation_failed (also for the 51st device of a user), unknown_app (no app for the device, to a user token)"
//	@Router			/v1/users/{user}/devices/{token} [put]
func (s *server) putDevice(ctx context.Context, in *putDeviceRequest) (*web.Reply[api.Device], error) {
	if err := in.Body.CheckToken(in.Token); err != nil {
		return nil, err
	}
	if web.UserOf(ctx) != nil && !s.takes(&in.Body) {
		return nil, api.Errorf(api.CodeUnknownApp, "no app is configured for this topic and environment")
	}
	device, created, err := s.devices.PutDevice(ctx, in.User, in.Token, &in.Body)
	if err != nil {
		return nil, err
	}
	return web.Put(device, created), nil
}

type putDevicesRequest struct {
	Idempotency api.Idempotency
	Body        api.DeviceBatchRequest
}

// putDevices registers many devices.
//
//	@Summary		Register many devices
//	@Description	For moving in from another system: registers 1 to 1,000 devices of any users in one step, each as
//	@Description	`PUT /v1/users/{user}/devices/{token}` does, and either all or none. The errors name each wrong device by its index, such as
//	@Description	`devices[3].token`. If all devices are valid, they name those that would be the 51st or a later one of their users. A token
//	@Description	may be in the batch only once. Not for user tokens.
//	@Tags			push
//	@ID				putDevices
//	@Accept			json
//	@Param			Idempotency-Key	header	string					false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			batch			body	api.DeviceBatchRequest	true	"The devices"
//	@Success		204				"All are registered"
//	@Header			204				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		413				{object}	api.Problem	"payload_too_large: the body may have at most 1 MiB"
//	@Failure		422				{object}	api.Problem	"validation_failed (also for a token that is in the batch twice, and for the 51st device of a user), idempotency_key_reused"
//	@Router			/v1/devices/batch [post]
func (s *server) putDevices(ctx context.Context, in *putDevicesRequest) (*web.Reply[web.Nothing], error) {
	replayed, err := s.devices.PutDevices(ctx, in.Body.Devices, in.Idempotency)
	if err != nil {
		return nil, err
	}
	return web.NoContent().Replayed(replayed), nil
}

type listDevicesRequest struct {
	User string `path:"user" validate:"identifier"`
	web.Page
}

// listDevices lists a user's devices.
//
//	@Summary		List a user's devices
//	@Description	Lists dropped devices too, with the reason. `suspect` devices still get notifications. `dropped` devices get
//	@Description	none until they register again.
//	@Tags			push
//	@ID				listDevices
//	@Produce		json
//	@Param			user	path		string			true	"The user"
//	@Param			limit	query		int				false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string			false	"The `next` of the previous page"
//	@Success		200		{object}	api.DeviceList	"A page"
//	@Router			/v1/users/{user}/devices [get]
func (s *server) listDevices(ctx context.Context, in *listDevicesRequest) (*web.Reply[api.DeviceList], error) {
	all, err := s.devices.Devices(ctx, in.User)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all.Items, func(a, b api.Device) int { return cmp.Compare(a.Token, b.Token) })
	items, next, err := web.PageOf(in.Page, all.Items, func(d *api.Device) string { return d.Token })
	if err != nil {
		return nil, err
	}
	return web.OK(&api.DeviceList{Items: items, Next: next}), nil
}

type deleteDeviceRequest struct {
	User  string `path:"user" validate:"identifier"`
	Token string `path:"token" validate:"token"`
}

// deleteDevice removes a device.
//
//	@Summary		Remove a device
//	@Description	Nothing more is sent to the device, not even notifications that are waiting already. Removing a device that does
//	@Description	not exist changes nothing.
//	@Tags			push
//	@ID				deleteDevice
//	@Param			user	path	string	true	"The user"
//	@Param			token	path	string	true	"The device's token"
//	@Success		204		"Removed, or did not exist"
//	@Router			/v1/users/{user}/devices/{token} [delete]
func (s *server) deleteDevice(ctx context.Context, in *deleteDeviceRequest) (*web.Reply[web.Nothing], error) {
	if err := s.devices.DeleteDevice(ctx, in.User, in.Token); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}
