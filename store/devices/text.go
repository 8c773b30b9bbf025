package devices

import (
	"strconv"
	"strings"

	"fanfare/api"
)

// The text of a user's devices in the cache has the fields that targeting needs. Each device ends
// with deviceEnd, and each of its fields with fieldEnd. No field can contain either. It is not
// JSON, because it is parsed for every notification.
const (
	deviceEnd, fieldEnd = "\x1e", "\x1f"
	deviceFields        = 7
)

func devicesText(list []api.Device) string {
	var b strings.Builder
	for i := range list {
		d := &list[i]
		for _, v := range [deviceFields]string{d.Token, d.Topic, string(d.Environment), string(d.State),
			strconv.FormatInt(d.RegisteredAt.UnixMilli(), 10), d.Locale, d.Target} {
			b.WriteString(v)
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
		line, rest, ended := strings.Cut(text, deviceEnd)
		var v [deviceFields]string
		for n := range v {
			var found bool
			if v[n], line, found = strings.Cut(line, fieldEnd); !found {
				return nil, false
			}
		}
		at, err := strconv.ParseInt(v[4], 10, 64)
		d := api.Device{Token: v[0], Topic: v[1], Environment: api.Environment(v[2]),
			State: api.DeviceState(v[3]), RegisteredAt: api.AtMillis(at), Locale: v[5], Target: v[6]}
		if !ended || line != "" || err != nil || (d.Target != "") != (d.PlatformOf() == api.PlatformWebPush) {
			return nil, false
		}
		text, list = rest, append(list, d)
	}
	return list, true
}
