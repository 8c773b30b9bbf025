package api

// The limits of the HTTP contract. Sizes are bytes unless said otherwise.
const (
	MaxIdentifier     = 128      // a client-chosen id
	MinTokenHex       = 64       // hex digits of an APNs device token
	MaxTokenHex       = 200      // hex digits of an APNs device token
	MinDeviceToken    = 20       // an FCM registration token
	MaxDeviceToken    = 512      // any device token
	MaxEndpoint       = 2048     // the endpoint of a browser's subscription
	MaxBody           = 64 << 10 // most request bodies
	MaxEventBody      = 1 << 20  // POST /v1/events
	MaxBatchBody      = 4 << 20  // POST /v1/events/batch, POST /v1/queues/{queue}/jobs/batch
	MaxBatchEvents    = 1000     // events in one batch
	MaxAPS            = 2 << 10  // the aps object, as JSON
	MaxData           = 2 << 10  // the data object, as JSON
	MaxLocale         = 35       // a device's locale
	MaxLanguages      = 20       // languages of an event type, beside the default
	MaxLocalized      = 8 << 10  // their templates, as JSON, and the texts of an event in them
	MaxFCM            = 2 << 10  // the fcm object, as JSON
	MaxWebPush        = 2 << 10  // the webpush object, as JSON
	MaxPayload        = 4096     // rendered APNs payload, and the keys and values of a message to FCM
	MaxWebPushPayload = 3993     // what a page gets
	MaxVoIPPayload    = 5120     // rendered APNs payload, push type voip
	MaxBroadcast      = 5120     // rendered APNs payload of a broadcast
	MaxIdempotencyKey = 255      // printable bytes
	MaxDevices        = 50       // per user
	MaxMutes          = 1000     // per user
	MaxOptOuts        = 1000     // per user
	DefaultPageSize   = 50       // ?limit= of lists
	MaxPageSize       = 500      // ?limit= of lists
)
