package api

// App is an app of a push service: a topic on a platform. For APNs the environment is part of it.
type App struct {
	App         string      `json:"app" example:"com.example.app/production"`
	Topic       string      `json:"topic"`
	Platform    Platform    `json:"platform"`
	Environment Environment `json:"environment,omitempty"`
	State       AppState    `json:"state"`
	// Reason says why the app is paused, or was paused before it resumed.
	Reason string `json:"reason,omitempty"`
	Since  *Time  `json:"since,omitempty" swaggertype:"string" format:"date-time"`
	// Waiting counts the notifications that are set aside until the app runs.
	Waiting int64 `json:"waiting"`
}

// AppState says whether notifications of an app are sent.
type AppState string

// The states of an app. A resuming app runs, and the notifications that were set aside come back in
// steps.
const (
	AppRunning  AppState = "running"
	AppPaused   AppState = "paused"
	AppResuming AppState = "resuming"
)

// AppList is the answer of GET /v1/apps, by the apps' names.
type AppList struct {
	Items []App `json:"items"`
}

// ProbeAccepted is the answer of POST /v1/apps/{topic}/probe.
type ProbeAccepted struct {
	Topic string `json:"topic"`
}
