package devices

import (
	"strconv"
	"strings"

	"fanfare/api"
)

// The text of a user's devices in the cache has the fields that targeting needs. Each device ends
// with deviceEnd, and each of its fields with fieldEnd. No field can contain either. It is not
// JSON, because it is parsed for every notification.
//
// A device with a locale has one more field, the locale, and so has every device of another platform than
// APNs, which has no environment. A browser has one field more, its target. Processes that do not know a
// device's platform take the text with such a device for another form, so that they do not send to it.
const (
	deviceEnd, fieldEnd = "\x1e", "\x1f"
	deviceFields        = 5
)

func devicesText(list []api.Device) string {
	var b strings.Builder
	for i := range list {
		d := &list[i]
		for _, v := range [deviceFields]string{d.Token, d.Topic, string(d.Environment), string(d.State),
			strconv.FormatInt(d.RegisteredAt.UnixMilli(), 10)} {
			b.WriteString(v)
			b.WriteString(fieldEnd)
		}
		if d.Locale != "" || d.Environment == "" {
			b.WriteString(d.Locale)
			b.WriteString(fieldEnd)
		}
		if d.Target != "" {
			b.WriteString(d.Target)
			b.WriteString(fieldEnd)
		}
		b.WriteString(deviceEnd)
	}
	return b.String()
}

// parseDevices reads the form of devicesText. It returns false if the text has another form.
func parseDevices(text string) ([]api.Device, bool) {
	list := make([]api.Device, 0, strings.Count(text, deviceEnd))
	for text != "" {
		line, rest, ended := strings.Cut(text, fieldEnd+deviceEnd)
		var v [deviceFields + 2]string
		n := 0
		for more := true; more; n++ {
			if n == len(v) {
				return nil, false
			}
			v[n], line, more = strings.Cut(line, fieldEnd)
		}
		at, err := strconv.ParseInt(v[4], 10, 64)
		d := api.Device{Token: v[0], Topic: v[1], Environment: api.Environment(v[2]),
			State: api.DeviceState(v[3]), RegisteredAt: api.AtMillis(at), Locale: v[5], Target: v[6]}
		browser := d.PlatformOf() == api.PlatformWebPush
		if !ended || n < deviceFields || err != nil || (n == len(v)) != browser || (d.Target != "") != browser {
			return nil, false
		}
		text, list = rest, append(list, d)
	}
	return list, true
}
