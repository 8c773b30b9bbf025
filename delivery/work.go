package delivery

import (
	"context"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/events"
	"fanfare/store/events/render"
	"fanfare/store/queue"
)

// work is one notification in this process: either a claimed notification, or one of a claimed
// event that is sent by the process that targeted it. Exactly one of claimed and event is set.
type work struct {
	lease
	claimed  *queue.Claimed // the notification's own claim
	event    *Event         // the event that the notification is sent with
	id       string         // of the notification
	m        *message
	enqueued time.Time       // when Redis got the notification, or its event
	counted  bool            // it is counted as targeted
	probe    bool            // it may be sent although its app is paused
	app      string          // the app that the message goes through
	charged  string          // the app that this send has room of; a new registration may change the message's app
	owner    time.Time       // when the owner of a retried dead letter's device was read
	blamed   bool            // an UnclearRefusal is the device's fault
	hanging  bool            // the service was asked and did not answer
	accepted bool            // the service took the notification
	asked    bool            // the service was asked, or would have been
	took     time.Duration   // from the request to its answer
	group    *sync.WaitGroup // the queue's Run that brought the notification waits for it
}

// lease is the lease that protects a send: the lease of the notification's own claim, or of its
// event's claim. Its methods cannot end a job.
type lease interface {
	Clock() time.Time
	Context() context.Context
	Alive() bool
	Fresh() bool
	AwaitFresh(ctx context.Context) bool
}

// message is what a notification says, and to whom. It has everything that sending needs, so that nothing
// has to be read. If it has to wait it is encoded into a queue entry (message.go).
type message struct {
	Token        string          `json:"token"`
	User         string          `json:"user"`
	Topic        string          `json:"topic"`
	Environment  api.Environment `json:"environment,omitempty"` // "" unless the platform is APNs
	Target       string          `json:"-"`                     // as in api.Device; secret
	Channel      string          `json:"channel,omitempty"`     // of a broadcast, which the token stands for
	Latest       bool            `json:"-"`                     // the channel keeps the latest update
	RegisteredAt int64           `json:"registered_at"`         // Unix ms
	Event        string          `json:"event"`                 // see events.GroupOf
	AcceptedAt   int64           `json:"accepted_at"`           // Unix ms
	Push         render.Push     `json:"push"`
	// Suspect says that the service refused the device once before.
	Suspect bool `json:"suspect,omitempty"`
	// Refused is the reason with which the service permanently refused the notification when it was
	// sent with its event. Such a message is stored only to become a dead letter.
	Refused string `json:"-"`
	// RefusedSaid is that answer of the service, for people.
	RefusedSaid string `json:"-"`
	// Retrying reports whether this notification is counted as retrying.
	Retrying bool `json:"retrying,omitempty"`
	// Live is the place of an update or a start among the live events of its object; the zero value if no newer one ends it.
	Live events.Superseding `json:"-"`
	// Activity is the token under which the activity is kept for which an Android phone gets this; "": the token is its own.
	Activity string `json:"-"`
	// Trace is events.Job.Trace.
	Trace string `json:"-"`
}

// platform is the push service that issued the token.
func (m *message) platform() api.Platform { return api.PlatformOf(m.Token, m.Environment) }

// app names the app that a message goes through.
func (d *Delivery) app(m *message) string {
	place := string(m.Environment)
	if m.Target != "" {
		place = d.o.PushOrigins.OfTarget(m.Target)
	}
	return transport.AppOf(m.platform(), m.Topic, place)
}

func (m *message) registeredAt() time.Time { return time.UnixMilli(m.RegisteredAt) }

// expired reports whether the message has expired.
func (m *message) expired(now time.Time) bool {
	return m.Push.ExpiresAt > 0 && now.UnixMilli() >= m.Push.ExpiresAt
}

// notification builds the Notification for the Sender, which sends it now. A channel takes other expirations than a device.
func (m *message) notification(id string, now time.Time, maySend func() bool) *transport.Notification {
	n := &transport.Notification{
		ID: id, Platform: m.platform(), Token: m.Token, Target: m.Target, Channel: m.Channel, Topic: m.Topic, Environment: m.Environment,
		PushType: m.Push.PushType, Priority: m.Push.Priority, CollapseID: m.Push.CollapseID,
		Payload: m.Push.Payload, At: now, MaySend: maySend,
	}
	expiration := m.Push.Expiration
	if m.Channel != "" {
		expiration = events.ChannelExpiration(expiration, m.Latest, now)
	}
	if expiration != nil {
		n.Expiration = new(time.Unix(*expiration, 0))
	}
	return n
}
