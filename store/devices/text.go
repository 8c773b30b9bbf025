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
// A device of another platform than APNs, which has no environment, has one more field, which is empty.
// So processes that know APNs alone take the text for another form and do not send to the device.
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
		if d.Environment == "" {
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
		var v [deviceFields]string
		for i := range v {
			var ok bool
			if v[i], text, ok = strings.Cut(text, fieldEnd); !ok {
				return nil, false
			}
		}
		at, err := strconv.ParseInt(v[4], 10, 64)
		end := deviceEnd
		if v[2] == "" {
			end = fieldEnd + deviceEnd
		}
		rest, ok := strings.CutPrefix(text, end)
		if err != nil || !ok {
			return nil, false
		}
		text = rest
		list = append(list, api.Device{Token: v[0], Topic: v[1], Environment: api.Environment(v[2]),
			State: api.DeviceState(v[3]), RegisteredAt: api.AtMillis(at)})
	}
	return list, true
}
