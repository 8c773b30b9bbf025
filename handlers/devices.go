package handlers

import (
	"cmp"
	"context"
	"slices"
	"strings"

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
//	@Description	Call it whenever an app starts with its APNs device token (hex, in any case). Registering again revives a device that
//	@Description	APNs had declared gone. A token that belonged to another user leaves that user. At most 50 devices per user. With a
//	@Description	user token there must be an app for the topic and environment.
//	@Tags			push
//	@ID				putDevice
//	@Accept			json
//	@Produce		json
//	@Param			user	path		string				true	"The user"
//	@Param			token	path		string				true	"The APNs device token, hex"
//	@Param			device	body		api.DeviceRequest	true	"What to send to it with"
//	@Success		200		{object}	api.Device			"Registered again"
//	@Success		201		{object}	api.Device			"Registered"
//	@Failure		422		{object}	api.Problem			"validation_failed (also for the 51st device of a user), unknown_app (no such topic and environment, to a user token)"
//	@Router			/v1/users/{user}/devices/{token} [put]
func (s *server) putDevice(ctx context.Context, in *putDeviceRequest) (*web.Reply[api.Device], error) {
	if web.UserOf(ctx) != nil && !s.takes(&in.Body) {
		return nil, api.Errorf(api.CodeUnknownApp, "no app is configured for this topic and environment")
	}
	device, created, err := s.devices.PutDevice(ctx, in.User, strings.ToLower(in.Token), &in.Body)
	if err != nil {
		return nil, err
	}
	return web.Put(device, created), nil
}

type listDevicesRequest struct {
	User string `path:"user" validate:"identifier"`
	web.Page
}

// listDevices lists a user's devices.
//
//	@Summary		List a user's devices
//	@Description	Also those that were dropped, with the reason: `suspect` ones are still sent to, `dropped` ones are not until they
//	@Description	register again.
//	@Tags			push
//	@ID				listDevices
//	@Produce		json
//	@Param			user	path		string			true	"The user"
//	@Param			limit	query		int				false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string			false	"next of the page before"
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
//	@Description	Nothing more is sent to it, also nothing that waits already. Removing a device that is not there changes nothing.
//	@Tags			push
//	@ID				deleteDevice
//	@Param			user	path	string	true	"The user"
//	@Param			token	path	string	true	"The APNs device token, hex"
//	@Success		204		"Removed, or not there"
//	@Router			/v1/users/{user}/devices/{token} [delete]
func (s *server) deleteDevice(ctx context.Context, in *deleteDeviceRequest) (*web.Reply[web.Nothing], error) {
	if err := s.devices.DeleteDevice(ctx, in.User, strings.ToLower(in.Token)); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}
