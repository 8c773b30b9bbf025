package api

import (
	"fmt"
	"maps"
	"slices"
)

// deviceRules requires an environment of a device of APNs, and refuses that of another.
func deviceRules(to reporter, r *DeviceRequest) {
	reportEnvironment(to, r.Platform, r.Environment)
}

func reportEnvironment(to reporter, platform string, e Environment) {
	if rule := environmentRule(platform, e); rule != "" {
		to.ReportError(e, "environment", "Environment", rule, "")
	}
}

// deviceEntryRules does the same, and requires the token or the subscription of the platform.
func deviceEntryRules(to reporter, e *DeviceEntry) {
	reportEnvironment(to, e.Platform, e.Environment)
	if field, rule := e.broken(); rule != "" {
		param := ""
		if rule == "token" {
			param = e.Platform
		}
		to.ReportError(e.Token, field, "", rule, param)
	}
}

// deviceBatchRules refuses a token or an endpoint that a batch names twice.
func deviceBatchRules(to reporter, r *DeviceBatchRequest) {
	reportRepeats(to, r.repeats(), "devices[%d]", func(i int) string { return r.Devices[i].TokenField() })
}

// contactBatchRules refuses a contact that a batch names twice.
func contactBatchRules(to reporter, r *ContactBatchRequest) {
	reportRepeats(to, r.repeats(), "contacts[%d]", func(int) string { return "contact" })
}

// reportRepeats reports the field of each entry of a list that repeats an earlier entry.
func reportRepeats(to reporter, repeats map[int]int, entry string, field func(i int) string) {
	for _, i := range slices.Sorted(maps.Keys(repeats)) {
		to.ReportError(i, fmt.Sprintf(entry+"."+field(i), i), "", "unique", fmt.Sprintf(entry, repeats[i]))
	}
}

func (r *DeviceBatchRequest) repeats() map[int]int {
	return repeats(r.Devices, (*DeviceEntry).StoredToken)
}

func (r *ContactBatchRequest) repeats() map[int]int {
	return repeats(r.Contacts, func(c *Contact) string { return c.Contact })
}

// repeats returns, by index, the entries whose name is that of an earlier entry, each with the
// index of the first entry of that name. The name "" does not count, because other rules report it.
func repeats[T any](list []T, name func(*T) string) map[int]int {
	seen, again := make(map[string]int, len(list)), map[int]int{}
	for i := range list {
		n := name(&list[i])
		if first, known := seen[n]; known && n != "" {
			again[i] = first
		} else {
			seen[n] = i
		}
	}
	return again
}
