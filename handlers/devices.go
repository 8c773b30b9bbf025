package handlers

import (
	"cmp"
	"context"
	"fmt"
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
//	@Description	Registering again revives a device that its push service had declared gone, unless `registered_at` says that
//	@Description	the device itself has not registered since. A token that belonged to another user leaves
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
//	@Failure		409		{object}	api.Problem			"conflict: the device registered for another user later than `registered_at`"
//	@Failure		422		{object}	api.Problem			"validation_failed (also for the 51st device of a user), unknown_app (no app for the device, to a user token)"
//	@Router			/v1/users/{user}/devices/{token} [put]
func (s *server) putDevice(ctx context.Context, in *putDeviceRequest) (*web.Reply[api.Device], error) {
	if err := in.Body.CheckToken(in.Token); err != nil {
		return nil, err
	}
	if err := s.checkApp(ctx, &in.Body); err != nil {
		return nil, err
	}
	device, created, err := s.o.Devices.PutDevice(ctx, in.User, in.Token, &in.Body)
	return web.Put(device, created), err
}

// checkApp refuses a user's own registration if there is no app for it.
func (s *server) checkApp(ctx context.Context, d *api.DeviceRequest) error {
	if web.UserOf(ctx) != nil && !s.o.TakesDevice(d) {
		return api.Errorf(api.CodeUnknownApp, "no app is configured for this topic and environment")
	}
	return nil
}

type postDeviceRequest struct {
	User        string `path:"user" validate:"identifier"`
	Idempotency api.Idempotency
	Body        api.BrowserRequest
}

// postDevice registers a browser.
//
//	@Summary		Register a browser
//	@Description	Takes the subscription that `PushSubscription.toJSON()` gives in a page. Call this whenever the page has subscribed or
//	@Description	its subscription may have changed. The answer has the browser's token, `wp.` and the SHA-256 of the endpoint in base64url,
//	@Description	by which it can be removed. The same endpoint with other keys replaces them. The keys and the endpoint are never shown
//	@Description	again. The endpoint must be at a push service to which the server sends. Otherwise this is as
//	@Description	`PUT /v1/users/{user}/devices/{token}` for other devices.
//	@Tags			push
//	@ID				postDevice
//	@Accept			json
//	@Produce		json
//	@Param			user			path		string				true	"The user"
//	@Param			Idempotency-Key	header		string				false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			device			body		api.BrowserRequest	true	"The browser"
//	@Success		200				{object}	api.Device			"Registered again"
//	@Success		201				{object}	api.Device			"Registered"
//	@Header			200				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Header			201				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		409				{object}	api.Problem			"conflict: the browser registered for another user later than `registered_at`"
//	@Failure		422				{object}	api.Problem			"validation_failed (also for the 51st device of a user), unknown_app (no app for the topic, to a user token), idempotency_key_reused"
//	@Router			/v1/users/{user}/devices [post]
func (s *server) postDevice(ctx context.Context, in *postDeviceRequest) (*web.Reply[api.Device], error) {
	if err := api.InvalidFields(s.o.PushOrigins.Unlisted("subscription.endpoint", in.Body.Subscription.Endpoint)); err != nil {
		return nil, err
	}
	_, device := in.Body.Device()
	if err := s.checkApp(ctx, device); err != nil {
		return nil, err
	}
	done, err := s.o.Devices.PutBrowser(ctx, in.User, &in.Body, in.Idempotency)
	if err != nil {
		return nil, err
	}
	return web.Put(done.Device, done.Created).Replayed(done.Replayed), nil
}

type putDevicesRequest struct {
	Idempotency api.Idempotency
	Body        api.DeviceBatchRequest
}

// putDevices registers many devices.
//
//	@Summary		Register many devices
//	@Description	For moving in from another system: registers 1 to 1,000 devices of any users in one step, each as
//	@Description	`PUT /v1/users/{user}/devices/{token}` does, or, with a subscription, `POST /v1/users/{user}/devices`, and either all or none. The errors name each wrong device by its index, such as
//	@Description	`devices[3].token`. If all devices are valid, they name those that would be the 51st or a later one of their users. A token
//	@Description	may be in the batch only once. A device that registered for another user later than its `registered_at` is left out.
//	@Description	Not for user tokens.
//	@Tags			push
//	@ID				putDevices
//	@Accept			json
//	@Param			Idempotency-Key	header	string					false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			batch			body	api.DeviceBatchRequest	true	"The devices"
//	@Success		204				"All are registered"
//	@Header			204				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		413				{object}	api.Problem	"payload_too_large: the body may have at most 4 MiB"
//	@Failure		422				{object}	api.Problem	"validation_failed (also for a token that is in the batch twice, and for the 51st device of a user), idempotency_key_reused"
//	@Router			/v1/devices/batch [post]
func (s *server) putDevices(ctx context.Context, in *putDevicesRequest) (*web.Reply[web.Nothing], error) {
	var unlisted []api.FieldError
	for i := range in.Body.Devices {
		if b := in.Body.Devices[i].Subscription; b != nil {
			unlisted = append(unlisted, s.o.PushOrigins.Unlisted(fmt.Sprintf("devices[%d].subscription.endpoint", i), b.Endpoint)...)
		}
	}
	if err := api.InvalidFields(unlisted); err != nil {
		return nil, err
	}
	replayed, err := s.o.Devices.PutDevices(ctx, in.Body.Devices, in.Idempotency)
	return web.NoContent().Replayed(replayed), err
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
func (s *server) listDevices(ctx context.Context, in *userPageRequest) (*web.Reply[api.DeviceList], error) {
	all, err := s.o.Devices.Devices(ctx, in.User)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all.Items, func(a, b api.Device) int { return cmp.Compare(a.Token, b.Token) })
	items, next, err := web.PageOf(in.Page, all.Items, func(d *api.Device) string { return d.Token })
	return web.OK(&api.DeviceList{Items: items, Next: next}), err
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
	return web.NoContent(), s.o.Devices.DeleteDevice(ctx, in.User, in.Token)
}

type testDeviceRequest struct {
	User        string `path:"user" validate:"identifier"`
	Token       string `path:"token" validate:"token"`
	Idempotency api.Idempotency
}

// testDevice sends a test notification to a device.
//
//	@Summary		Send a test notification to a device
//	@Description	Sends "Test notification" to this one device, of any platform, whatever the user's opt-outs and mutes are. It tells
//	@Description	whether the app's credentials and the device's registration are right. The id is that of an event with the type
//	@Description	`fanfare.test`: `GET /v1/events/{id}` shows whether the push service took the notification, and else why not. A
//	@Description	device that is dropped gets none (`suppressed.no_device`). fanfare gives up after an hour.
//	@Tags			push
//	@ID				testDevice
//	@Produce		json
//	@Param			user			path		string				true	"The user"
//	@Param			token			path		string				true	"The device's token"
//	@Param			Idempotency-Key	header		string				false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Success		202				{object}	api.EventAccepted	"Accepted: from here on it is not lost"
//	@Header			202				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Header			202				{string}	Location			"The URL of the event's report"
//	@Failure		404				{object}	api.Problem			"not_found: the user has no such device"
//	@Failure		422				{object}	api.Problem			"validation_failed, idempotency_key_reused"
//	@Router			/v1/users/{user}/devices/{token}/test [post]
func (s *server) testDevice(ctx context.Context, in *testDeviceRequest) (*web.Reply[api.EventAccepted], error) {
	token, _ := api.NormalToken(in.Token)
	event, replayed, err := s.o.Events.AcceptTest(ctx, in.User, token, in.Idempotency)
	if err != nil {
		return nil, err
	}
	if !replayed {
		s.web.LogChange(ctx, "devices.test", event.ID)
	}
	return web.Accepted(event).Replayed(replayed).At("/v1/events/" + event.ID), nil
}
