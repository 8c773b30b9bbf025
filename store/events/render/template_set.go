package render

import (
	"encoding/json"

	"fanfare/api"
)

// TemplateSet is an event type ready for rendering: its templates parsed, its
// defaults filled in, its rules checked. It is read-only and safe for
// concurrent use.
type TemplateSet struct {
	pushType     api.PushType
	topics       api.Topics
	priority     int
	title, body  *Template
	aps          map[string]json.RawMessage // sound, category, thread-id and the type's own aps
	fcm          map[string]json.RawMessage
	webpush      map[string]json.RawMessage
	ttl          *int64
	collapse     bool
	retryUnknown bool
	badge        api.BadgeMode // "" for none
	opened       bool
	// languages has the same type with the texts of another language, by locale in lower case.
	languages map[string]*TemplateSet
	language  string // "" in the default language
}

// DefaultTemplateSet renders events with their own alert whose type does not exist.
func DefaultTemplateSet() *TemplateSet {
	return &TemplateSet{pushType: api.PushAlert, priority: 10, collapse: true, retryUnknown: true}
}

// NewTemplateSet checks an event type and parses its templates. Every failing
// field is named in one CodeValidation error.
func NewTemplateSet(t *api.EventTypeRequest) (*TemplateSet, error) {
	s := DefaultTemplateSet()
	if t.PushType != "" {
		s.pushType = t.PushType
	}
	switch {
	case s.pushType == api.PushBackground:
		s.priority = 5 // APNs refuses 10
	case t.Priority != 0:
		s.priority = t.Priority
	}
	s.ttl, s.topics = t.TTLSeconds, t.Topic
	s.collapse = t.Collapse == nil || *t.Collapse
	s.retryUnknown = t.RetryUnknown == nil || *t.RetryUnknown
	s.opened = t.Opened
	var errs [8]error
	s.title, errs[0] = ParseTemplate("title", t.Title)
	s.body, errs[1] = ParseTemplate("body", t.Body)
	s.aps, errs[2] = parseAPS(s.pushType, t.APS)
	s.badge, errs[3] = badgeOf(t, s.pushType)
	errs[4] = s.checkText(t)
	texts, err := parseLocalized(t.Localized)
	errs[5] = err
	s.fcm, errs[6] = parseFCM(t.FCM)
	if s.opened && s.pushType != api.PushAlert {
		errs[7] = api.Invalid("opened", "alert", "is for push type alert")
	}
	s.webpush = membersOf(t.WebPush)
	if err := joinInvalid(errs[:]); err != nil {
		return nil, err
	}
	s.addTypeFields(t)
	s.addLanguages(texts)
	return s, nil
}

// Opened reports whether it is counted who opens the notifications.
func (s *TemplateSet) Opened() bool { return s.opened }

// checkText requires that an alert type has something to show, which may be in aps, or the badge.
func (s *TemplateSet) checkText(t *api.EventTypeRequest) error {
	if s.pushType != api.PushAlert || t.Title != "" || t.Body != "" || s.badge != "" {
		return nil
	}
	for _, name := range visible {
		if _, ok := s.aps[name]; ok {
			return nil
		}
	}
	return joinInvalid([]error{
		api.Invalid("title", "required", "is needed when there is no body"),
		api.Invalid("body", "required", "is needed when there is no title"),
	})
}

// addTypeFields adds the fields of the type that its aps does not set.
func (s *TemplateSet) addTypeFields(t *api.EventTypeRequest) {
	own := map[string]string{"category": t.Category, "thread-id": t.ThreadID}
	if s.pushType != api.PushBackground {
		own["sound"] = t.Sound
	}
	for name, value := range own {
		if _, ok := s.aps[name]; ok || value == "" {
			continue
		}
		if s.aps == nil {
			s.aps = map[string]json.RawMessage{}
		}
		s.aps[name] = marshal(value)
	}
}

// visible are the keys of aps that Apple forbids in a background push.
var visible = []string{"alert", "badge", "sound"}

// apsOnly are the push types whose payload comes only from aps.
var apsOnly = map[api.PushType]bool{
	api.PushLocation: true, api.PushComplication: true, api.PushPushToTalk: true,
	api.PushWidgets: true, api.PushControls: true,
}
