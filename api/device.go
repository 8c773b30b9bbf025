package api

// The limits of POST /v1/devices/batch.
const (
	MaxDeviceBatch     = 1000    // devices in one call
	MaxDeviceBatchBody = 1 << 20 // bytes
)

// Platform is the push service that issued a device's token.
type Platform string

// The platforms, see ParseToken.
const (
	PlatformAPNs    Platform = "apns"
	PlatformFCM     Platform = "fcm"
	PlatformWebPush Platform = "webpush"
)

// Environment is the APNs environment that a token belongs to.
type Environment string

// The APNs environments.
const (
	EnvProduction Environment = "production"
	EnvSandbox    Environment = "sandbox"
)

// DeviceState says whether a device gets notifications.
type DeviceState string

// The states of a device. A suspect device still gets notifications. A dropped device gets none until
// it registers again.
const (
	DeviceActive  DeviceState = "active"
	DeviceSuspect DeviceState = "suspect"
	DeviceDropped DeviceState = "dropped"
)

// DeviceRequest is the body of PUT /v1/users/{user}/devices/{token}.
type DeviceRequest struct {
	Platform    string      `json:"platform" validate:"required,oneof=apns" example:"apns"`
	Topic       string      `json:"topic" validate:"required,identifier" example:"com.example.app"`
	Environment Environment `json:"environment" validate:"required,oneof=production sandbox" example:"production"`
	// Locale chooses the texts of notifications: a language, perhaps with a region, such as de or de-AT; at
	// most 35 bytes. Absent: the default texts.
	Locale string `json:"locale,omitempty" validate:"omitempty,locale" example:"de-AT"`
}

// DeviceBatchRequest is the body of POST /v1/devices/batch: devices of any number of users. No token
// is named twice, in upper or lower case.
type DeviceBatchRequest struct {
	Devices []DeviceEntry `json:"devices" validate:"required,min=1,max=1000,dive"`
}

// DeviceEntry is one device of a DeviceBatchRequest.
type DeviceEntry struct {
	User        string      `json:"user" validate:"required,identifier" example:"bob"`
	Token       string      `json:"token" validate:"required,token"`
	Platform    string      `json:"platform" validate:"required,oneof=apns" enums:"apns" example:"apns"`
	Topic       string      `json:"topic" validate:"required,identifier" example:"com.example.app"`
	Environment Environment `json:"environment" validate:"required,oneof=production sandbox" example:"production"`
	Locale      string      `json:"locale,omitempty" validate:"omitempty,locale" example:"de-AT"`
}

// Device is a registered device.
type Device struct {
	Token        string      `json:"token"`
	Platform     string      `json:"platform"`
	Topic        string      `json:"topic"`
	Environment  Environment `json:"environment"`
	Locale       string      `json:"locale,omitempty" example:"de-AT"`
	State        DeviceState `json:"state"`
	Reason       string      `json:"reason,omitempty"`
	RegisteredAt Time        `json:"registered_at"`
	DroppedAt    *Time       `json:"dropped_at,omitempty"`
}

// DeviceList is the answer of GET /v1/users/{user}/devices.
type DeviceList struct {
	Items []Device `json:"items"`
	Next  string   `json:"next,omitempty"`
}

// MuteRequest is the optional body of PUT /v1/users/{user}/mutes/{object}.
type MuteRequest struct {
	// Until is when the mute ends; absent: it lasts until it is deleted.
	Until *Time `json:"until,omitempty" swaggertype:"string" format:"date-time"`
}

// Mute is one muted object.
type Mute struct {
	Object string `json:"object"`
	Until  *Time  `json:"until,omitempty"`
}

// NotificationSettings is the answer of
// GET /v1/users/{user}/notification-settings.
type NotificationSettings struct {
	OptOuts []string `json:"opt_outs"`
	Mutes   []Mute   `json:"mutes"`
	Devices []Device `json:"devices"`
}
