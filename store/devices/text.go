package devices

import (
	"strconv"
	"strings"

	"fanfare/api"
)

// The text of a user's devices in the cache has the fields that targeting needs. Each device ends
// with deviceEnd, and each of its fields with fieldEnd; an activity has one field more. No field can contain either. It is not
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
		if d.Live != nil {
			b.WriteString(liveText(d.Live))
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
		if live, after, more := strings.Cut(line, fieldEnd); more {
			if d.Live, more = parseLive(live); !more {
				return nil, false
			}
			line = after
		}
		if !ended || line != "" || err != nil || d.Live == nil && (d.Target != "") != (d.PlatformOf() == api.PlatformWebPush) {
			return nil, false
		}
		text, list = rest, append(list, d)
	}
	return list, true
}

// liveText is what makes an activity of a device: when it ends, its object and its type, with blanks between them.
func liveText(l *api.DeviceLive) string {
	return strconv.FormatInt(l.EndsAt, 10) + " " + l.Object + " " + l.AttributesType
}

// parseLive reads the form of liveText.
func parseLive(text string) (*api.DeviceLive, bool) {
	parts := strings.Split(text, " ")
	if len(parts) != 3 {
		return nil, false
	}
	ends, err := strconv.ParseInt(parts[0], 10, 64)
	return &api.DeviceLive{EndsAt: ends, Object: parts[1], AttributesType: parts[2]}, err == nil
}
