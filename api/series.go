package api

// MaxStatsMinutes is the most minutes that GET /v1/stats/series shows, a day.
const MaxStatsMinutes = 1440

// StatsMinute is what all processes together did in a minute by Redis' clock. Figures that nobody knows are
// left out.
type StatsMinute struct {
	At Time `json:"at" swaggertype:"string" format:"date-time"`
	// Accepted counts events; the other numbers are of notifications.
	Accepted  int64 `json:"accepted"`
	Delivered int64 `json:"delivered"`
	Failed    int64 `json:"failed"`
	// Superseded counts those that were not sent because a newer live event of their object went before.
	Superseded int64 `json:"superseded"`
	// Opened counts users who opened a notification, once for each event, of event types that count that.
	Opened int64 `json:"opened"`
	// Retried counts requests to push services after which the notification is to be sent again.
	Retried int64 `json:"retried"`
	// Depth is how many jobs of all queues were waiting at the end of the minute; absent: nobody could read it.
	Depth *int64 `json:"depth,omitempty"`
	// OldestAgeMS is the age, at the end of the minute, of the oldest job that was waiting or running, in ms.
	OldestAgeMS *int64 `json:"oldest_age_ms,omitempty"`
	// P50MS is an estimate of the time from the acceptance of an event to the answer of a push service that
	// half of the answers did not exceed, in ms; absent: there was no answer.
	P50MS *float64 `json:"p50_ms,omitempty"`
	// P99MS is the same time for 99 % of the answers, in ms.
	P99MS *float64 `json:"p99_ms,omitempty"`
	// Alarms has the number of alarms for each kind that was raised.
	Alarms map[string]int64 `json:"alarms"`
	// Platforms has the platforms with notifications that ended.
	Platforms map[string]PlatformMinute `json:"platforms"`
}

// PlatformMinute is what ended of one platform in a minute.
type PlatformMinute struct {
	Delivered  int64 `json:"delivered"`
	Failed     int64 `json:"failed"`
	Superseded int64 `json:"superseded"`
}

// StatsSeries is the answer of GET /v1/stats/series, the oldest minute first.
type StatsSeries struct {
	Items []StatsMinute `json:"items"`
}

// StatsEvents lists the events of GET /v1/stats/stream, in the way of StreamEvents.
type StatsEvents struct {
	Stats       *Stats       `json:"stats"`
	Unavailable *Unavailable `json:"unavailable"`
}

// Unavailable says in a stream of figures that they could not be read. The stream goes on.
type Unavailable struct {
	Code Code `json:"code"`
}
