package fcmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Message is a message as FCM takes it. A member that FCM does not know is refused.
type Message struct {
	Token   string  `json:"token"`
	FID     string  `json:"fid"`
	Android Android `json:"android"`
	APNs    APNs    `json:"apns"`
	WebPush struct {
		Headers map[string]string `json:"headers"`
	} `json:"webpush"`
	Notification Notification      `json:"notification"`
	Data         map[string]string `json:"data"`
}

// Android are the options for Android; the members that fanfare's tests use.
type Android struct {
	Priority          string          `json:"priority"`
	TTL               string          `json:"ttl"`
	CollapseKey       string          `json:"collapse_key"`
	RestrictedPackage string          `json:"restricted_package_name"`
	Notification      json.RawMessage `json:"notification"`
}

// APNs is what an iPhone gets, beside the data.
type APNs struct {
	Headers map[string]string `json:"headers"`
	Payload struct {
		APS json.RawMessage `json:"aps"`
	} `json:"payload"`
}

// Notification is what a web app shows, and every device whose own part does not say otherwise.
type Notification struct {
	Title string `json:"title"`
	Body  string `json:"body"`
}

var ttlForm = regexp.MustCompile(`^[0-9]+(\.[0-9]{1,9})?s$`)

// readMessage reads and checks a message as FCM does.
func readMessage(body []byte) (Message, error) {
	var doc struct {
		Message Message `json:"message"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		return Message{}, fmt.Errorf("invalid JSON payload received: %w", err)
	}
	m := doc.Message
	switch {
	case (m.Token == "") == (m.FID == ""):
		return m, errors.New("exactly one of token and fid is required")
	case m.Android.Priority != "HIGH" && m.Android.Priority != "NORMAL" && m.Android.Priority != "":
		return m, fmt.Errorf("invalid priority %q", m.Android.Priority)
	case m.APNs.Headers["apns-priority"] == "10" && m.APNs.Headers["apns-push-type"] == "background":
		return m, errors.New("a background push of APNs has not the priority 10")
	case m.Android.TTL != "" && !validTTL(m.Android.TTL):
		return m, fmt.Errorf("invalid ttl %q", m.Android.TTL)
	}
	for name := range m.Data {
		if name == "from" || name == "message_type" || strings.HasPrefix(name, "google.") || strings.HasPrefix(name, "gcm.notification.") {
			return m, fmt.Errorf("invalid data payload key: %s", name)
		}
	}
	if size := m.size(); size > 4096 {
		return m, fmt.Errorf("message is too big: %d bytes", size)
	}
	return m, nil
}

// validTTL accepts durations of at most four weeks.
func validTTL(s string) bool {
	seconds, err := strconv.ParseFloat(strings.TrimSuffix(s, "s"), 64)
	return ttlForm.MatchString(s) && err == nil && seconds <= (28*24*time.Hour).Seconds()
}

// size counts the bytes of what a device gets, keys and values, for the kind of device that gets most.
func (m *Message) size() (n int) {
	for name, value := range m.Data {
		n += len(name) + len(value)
	}
	var shown map[string]json.RawMessage
	_ = json.Unmarshal(m.Android.Notification, &shown)
	android := 0
	for name, value := range shown {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		android += len(name) + len(text)
	}
	web := len("title") + len(m.Notification.Title) + len("body") + len(m.Notification.Body)
	return n + max(android, len("aps")+len(m.APNs.Payload.APS), web)
}
