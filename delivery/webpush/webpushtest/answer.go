package webpushtest

import (
	"io"
	"net/http"
	"time"

	"fanfare/delivery/exchange/exchangetest"
)

// Answer is the answer to one request that passed the checks. The zero Answer is a 201.
type Answer struct {
	// Status is the HTTP status; 0 means 201.
	Status int
	// Body is the whole body.
	Body string
	// RetryAfter and Location are sent as headers when they are not "".
	RetryAfter, Location string
	// NotificationStatus is the header with which Windows' service says what becomes of the notification.
	NotificationStatus string
	// NewStatus is the header of the same meaning that newer documents name in its place.
	NewStatus string
	// Delay is how long the answer takes.
	Delay time.Duration
	// Fault happens instead of the answer, or with it.
	Fault exchangetest.Fault
}

// reply is what happens.
func (a *Answer) reply() exchangetest.Reply {
	if a.Status == 0 {
		a.Status = http.StatusCreated
	}
	return exchangetest.Reply{Status: a.Status, Delay: a.Delay, Fault: a.Fault, Write: func(w http.ResponseWriter) {
		for name, value := range map[string]string{"Retry-After": a.RetryAfter, "Location": a.Location, "X-WNS-NotificationStatus": a.NotificationStatus, "X-WNS-Status": a.NewStatus} {
			if value != "" {
				w.Header().Set(name, value)
			}
		}
		w.WriteHeader(a.Status)
		_, _ = io.WriteString(w, a.Body)
	}}
}
