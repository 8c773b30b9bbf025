package api

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// MaxEventTopics is how many topics an event or an event type names at most.
const MaxEventTopics = 20

// Topics are the topics of the apps that an event is for. JSON may have one topic instead of a list. None means
// all apps.
type Topics []string

// UnmarshalJSON reads a topic or a list of topics.
func (t *Topics) UnmarshalJSON(b []byte) error {
	var one string
	var list []string
	switch {
	case string(b) == "null":
	case json.Unmarshal(b, &one) == nil:
		list = []string{one}
	case json.Unmarshal(b, &list) != nil:
		return errors.New("topic is a topic or a list of topics")
	}
	*t = list
	return nil
}

// topicsRules allows 1 to MaxEventTopics topics, if there are any.
func topicsRules(to reporter, t Topics) {
	if t != nil && len(t) == 0 {
		to.ReportError(t, "topic", "Topic", "min", "1")
	}
	if len(t) > MaxEventTopics {
		to.ReportError(t, "topic", "Topic", "max", strconv.Itoa(MaxEventTopics))
	}
	for i, topic := range t {
		field := "topic"
		if len(t) > 1 {
			field += "[" + strconv.Itoa(i) + "]"
		}
		if !ValidIdentifier(topic) {
			to.ReportError(topic, field, "Topic", "identifier", "")
		}
	}
}

// topicSuffixes are what follows the app's bundle id in the topics to which APNs takes a push type, by Apple's
// "Sending notification requests to APNs". The other types go to the bundle id itself.
// fileprovider is not offered, but no other type may go to its topics.
var topicSuffixes = map[PushType]string{
	PushLocation: ".location-query", PushVoIP: ".voip", PushComplication: ".complication", "fileprovider": ".pushkit.fileprovider",
	PushLiveActivity: ".push-type.liveactivity", PushPushToTalk: ".voip-ptt", PushWidgets: ".push-type.widgets", PushControls: ".push-type.controls",
}

// allSuffixes are the topicSuffixes without their types.
var allSuffixes = slices.Collect(maps.Values(topicSuffixes))

// TopicSuffix is what a topic of APNs ends with that takes this push type; "" for none.
func (p PushType) TopicSuffix() string { return topicSuffixes[p] }

// LiveBundle is the app of a topic of Live Activities, which may be given with or without its end.
func LiveBundle(topic string) string {
	return strings.TrimSuffix(topic, PushLiveActivity.TopicSuffix())
}

// Takes reports whether APNs takes this push type for a topic.
func (p PushType) Takes(topic string) bool {
	if suffix := topicSuffixes[p]; suffix != "" {
		return strings.HasSuffix(topic, suffix)
	}
	return !slices.ContainsFunc(allSuffixes, func(suffix string) bool { return strings.HasSuffix(topic, suffix) })
}
