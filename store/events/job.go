package events

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/store/events/render"
	"fanfare/store/pack"
	"fanfare/store/queue"
)

// The limits of an audience inside the queue.
const (
	// PageSize is how many users one page of an audience holds at most.
	PageSize = 1000
	// inlineUsers is the largest audience that is in the job itself.
	inlineUsers = 100
	// PartSize is how many users of a large audience become one part.
	PartSize = 100
)

// Job is an accepted event in its queue entry: rendered, and with the position at which targeting
// continues.
type Job struct {
	Type     string      `json:"type"`
	Actor    string      `json:"actor,omitempty"`
	Object   string      `json:"object,omitempty"`
	Audience Audience    `json:"audience"`
	Push     render.Push `json:"push"`
	// Of is the id of the event if this job is a part of an event. A part has some users of the
	// audience, listed by name. Of is "" if the job is the event itself.
	Of string `json:"of,omitempty"`
	// Parts is how many parts were made of the pages before Cursor.
	Parts int64 `json:"parts,omitempty"`
	// AcceptedAt is the accepting server's clock, in Unix milliseconds; SendAt if there is one.
	AcceptedAt int64 `json:"accepted_at"`
	// SendAt is when an event that was accepted for later is due, in Unix milliseconds; 0: at once. The queue
	// keeps the event until then, and builds that do not know the field target it then.
	SendAt int64 `json:"send_at,omitempty"`
	// Cursor is where the next page begins: a page's number, or the last name.
	Cursor  string `json:"cursor,omitempty"`
	Counted Counts `json:"counted,omitzero"`
	// Missed are users of a small audience whose settings could not be read, although those of other users
	// could. Counted has the counts of these other users.
	Missed []string `json:"missed,omitempty"`
	// Sent counts the notifications of the pages before Cursor that have ended.
	Sent Sent `json:"sent,omitzero"`
	// Settled is the fence of the claim that sent or stored some of the notifications and left none of them without a
	// mark. 0: no claim did.
	Settled int64 `json:"settled,omitempty"`
	// Opened says that it is counted who opens its notifications.
	Opened bool `json:"opened,omitempty"`
	// UnnotedSince is when the recipients of a part could first not be noted, in Unix milliseconds by Redis' clock; 0: never.
	UnnotedSince int64 `json:"unnoted_since,omitempty"`
	// Lacks are the apps for whose room a small event or a part waits, with how many notifications of each would go
	// together.
	Lacks []Share `json:"lacks,omitempty"`
	// Live is set for live events.
	Live *Live `json:"live,omitempty"`
	// Trace is the span of the call that brought the event, as trace.Parent names it; "": nothing is recorded below it.
	Trace string `json:"trace,omitempty"`

	variants render.Variants
	here     time.Time // when this process accepted it; zero: it comes out of the queue
}

// Share is a number of notifications that go through one app.
type Share struct {
	App string `json:"app"`
	N   int    `json:"n"`
}

// PushFor is the push as a device gets it, the same for all devices of a platform and language; nil if
// the event is not meant for the device's platform or topic.
func (j *Job) PushFor(d *api.Device) *render.Push {
	if !j.Push.Suits(d.Topic, d.PlatformOf()) {
		return nil
	}
	return j.variants.Of(&j.Push, d)
}

// Audience says which users are meant. Exactly one of its kinds is set.
type Audience struct {
	Users      []string `json:"users,omitempty"`
	Pages      int      `json:"pages,omitempty"` // number of pages of users in the job's attachment
	ContactsOf string   `json:"contacts_of,omitempty"`
	Chat       string   `json:"chat,omitempty"`
	Topic      string   `json:"topic,omitempty"`
	All        bool     `json:"all,omitempty"`
	// ActivitiesOf and Broadcast are objects of live events.
	ActivitiesOf string `json:"activities_of,omitempty"`
	Broadcast    string `json:"broadcast,omitempty"`
	// Device is set if the event is for one device, whatever the settings of its user are. Builds that do
	// not know it find no users, do not send the event, and give it back.
	Device *OneDevice `json:"device,omitempty"`
	// Channel is set if the event is one request to a channel, and has no users.
	Channel *Broadcast `json:"channel,omitempty"`
}

// OneDevice is a device, by its token in the stored form, and the user it must belong to.
type OneDevice struct {
	User  string `json:"user"`
	Token string `json:"token"`
}

// Listed are the users whose names are in the job itself.
func (a *Audience) Listed() []string {
	if a.Device != nil {
		return []string{a.Device.User}
	}
	return a.Users
}

// The kinds of an audience.
const (
	KindUsers      = "users"
	KindContactsOf = "contacts_of"
	KindChat       = "chat"
	KindTopic      = "topic"
	KindAll        = "all"
	KindActivities = "activities_of"
	KindBroadcast  = "broadcast"
)

// Kind names the kind of audience.
func (a *Audience) Kind() string {
	switch {
	case a.ContactsOf != "":
		return KindContactsOf
	case a.Chat != "":
		return KindChat
	case a.Topic != "":
		return KindTopic
	case a.All:
		return KindAll
	case a.ActivitiesOf != "":
		return KindActivities
	case a.Broadcast != "":
		return KindBroadcast
	}
	return KindUsers
}

// Name is the name with which the audience is looked up; "" if it lists its users, or means all.
func (a *Audience) Name() string {
	return a.ContactsOf + a.Chat + a.Topic + a.ActivitiesOf + a.Broadcast
}

// InSQL reports whether the users are read from SQL.
func (a *Audience) InSQL() bool {
	return a.ContactsOf != "" || a.Topic != "" || a.All || a.ActivitiesOf != ""
}

// JobOf takes the event out of a claimed job. The claimed job keeps no reference, so that the event
// belongs only to the caller.
func JobOf(c *queue.Claimed) (*Job, error) {
	j, ok := c.Value.(*Job)
	var err error
	if !ok {
		j, err = DecodeJob(c.Payload)
	}
	c.Value, c.Payload = nil, nil
	if err == nil {
		c.Class = queue.ClassOf(j.Type, "")
		if j.Of != "" {
			c.Aged = LabelPart // as an event that is given up for its age is over
		}
	}
	return j, err
}

// Encode writes the job for the queue.
func (j *Job) Encode() []byte { return pack.Encode(j) }

// ShowJob makes JSON of an event's queue entry, for its dead letter.
func ShowJob(_ string, payload []byte) json.RawMessage {
	j, err := DecodeJob(payload)
	if err != nil {
		return payload
	}
	shown, err := json.Marshal(j)
	if err != nil {
		return payload
	}
	return shown
}

// DecodeJob reads the form of Encode.
func DecodeJob(payload []byte) (*Job, error) {
	j := new(Job)
	if err := pack.Decode(payload, j); err != nil {
		return nil, fmt.Errorf("decode event: %w", err)
	}
	return j, nil
}

// Names never contain a blank, so a page of users is its names separated by blanks.
func joinPage(users []string) string { return strings.Join(users, " ") }

// SplitPage reads the users of one item of an event's attachment.
func SplitPage(item string) []string { return strings.Fields(item) }

// audience is the audience of an event in its queue entry, with the pages of a large one.
func (s *Store) audience(ctx context.Context, a *api.Audience) (Audience, []string, error) {
	if a.Broadcast == "" {
		stored, pages := storedAudience(a)
		return stored, pages, nil
	}
	b, err := s.o.Broadcast(ctx, a.Broadcast)
	if err != nil {
		return Audience{}, nil, err
	}
	return Audience{Broadcast: a.Broadcast, Channel: BroadcastOf(b)}, nil, nil
}

// storedAudience removes duplicate users. If there are many users, it puts them into pages that are
// stored as the job's attachment.
func storedAudience(a *api.Audience) (Audience, []string) {
	if len(a.Users) == 0 {
		return Audience{ContactsOf: a.ContactsOf, Chat: a.Chat, Topic: a.Topic, All: a.All, ActivitiesOf: a.ActivitiesOf, Broadcast: a.Broadcast}, nil
	}
	users := a.Users
	if len(users) > 1 {
		users = slices.Clone(users)
		slices.Sort(users)
		users = slices.Compact(users)
	}
	if len(users) <= inlineUsers {
		return Audience{Users: users}, nil
	}
	var pages []string
	for page := range slices.Chunk(users, PageSize) {
		pages = append(pages, joinPage(page))
	}
	return Audience{Pages: len(pages)}, pages
}
