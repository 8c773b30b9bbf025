package targeting_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/apns"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/logsender"
	"fanfare/delivery/targeting"
	"fanfare/delivery/transport"
	"fanfare/store/apps"
	"fanfare/store/badges"
	"fanfare/store/broadcasts"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/facts"
	"fanfare/store/pack"
	"fanfare/store/queue"
	"fanfare/store/queue/shard"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// soon is how long a test waits for something that takes milliseconds, because the machine may be
// busy with other tests.
const soon = 3 * time.Minute

// options are the options of a set-up. The zero value is a private Redis and SQLite.
type options struct {
	db       *redisdb.DB   // default: a redis-server of its own
	sql      string        // default: a SQLite file
	sqlTime  time.Duration // how long SQL may take to answer; default 5 s
	apns     apnstest.Options
	sender   func(*pipeline) transport.Sender
	delivery func(*delivery.Options)
	target   func(*targeting.Options)
	queue    func(*queue.Options)
	events   func(*events.Options)
	idle     bool   // start no process
	slowFans string // whose devices have the topic slowApp, in SQL; default: everySecond
	waits    bool   // each notification becomes a job of its own before it is sent
	noFacts  bool   // no facts are told: the test counts the commands of Redis
	maxAge   time.Duration
}

// pipeline is everything between a posted event and APNs, with real parts.
type pipeline struct {
	testing.TB
	o     options
	db    *redisdb.DB
	rec   *record.DB
	apns  *apnstest.Server
	first *process // accepts, and works unless options.idle
	scope string   // scope of the idempotency keys of this set-up, because a Cluster is shared
	posts atomic.Int64
	shown *badges.Store // see badges
	// postponed has the ids of the notifications that were sent to a postponing sender.
	postponed sync.Map
	posted    sync.Mutex
	ids       []string // of the events that mustPost posted
	facts     *facts.Store
	erased    bool // facts of a user were erased
}

// postponing is a Sender that sends no notification at its first try. So the notification becomes a job of its own.
type postponing struct {
	transport.Sender
	met *sync.Map
}

func (s *postponing) Start(ctx context.Context, n *transport.Notification, done func(transport.Answer)) {
	if _, again := s.met.LoadOrStore(n.ID, true); again {
		s.Sender.Start(ctx, n, done)
		return
	}
	go done(transport.Answer{Outcome: transport.Again})
}

// process is one server process, with its stores and workers.
type process struct {
	*pipeline
	queueOfEvents, queueOfNotes *queue.Queue
	devices                     *devices.Store
	events                      *events.Store
	delivery                    *delivery.Delivery
	targeting                   *targeting.Targeting
	broadcasts                  *broadcasts.Store // nil: the sender makes no channels
	sender                      transport.Sender
	stop                        func()
}

func setup(t testing.TB, o options) *pipeline {
	t.Helper()
	if o.db == nil {
		o.db = storetest.Open(t, storetest.Redis(t).URL())
	}
	if o.sql == "" {
		o.sql = storetest.SQLite(t)
	}
	p := &pipeline{TB: t, o: o, db: o.db, apns: apnstest.Start(t, o.apns), scope: queue.NewID(0, time.Now())}
	var err error
	if p.rec, err = record.Open(t.Context(), record.Options{URL: o.sql, Timeout: o.sqlTime}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.rec.Close() })
	t.Cleanup(p.compareFacts) // when all processes have stopped
	if err := p.rec.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.first = p.process()
	if !o.noFacts {
		p.relayFacts()
	}
	if !o.idle {
		p.first.start()
	}
	return p
}

// process makes the stores and workers of one more server process, on the same Redis and
// SQL. Nothing runs yet.
func (p *pipeline) process() *process {
	log := storetest.Logger(p, slog.LevelWarn)
	qo := queue.Options{Name: "events", Lease: 10 * time.Second, Logger: log, Drain: time.Second}
	no := qo
	no.Name, no.GroupRetention, no.Show = "notifications", 48*time.Hour, delivery.ShowMessage
	if p.o.maxAge > 0 {
		qo.MaxAge = p.o.maxAge + targeting.Overtime // as in app
	}
	if p.o.queue != nil {
		p.o.queue(&qo)
		p.o.queue(&no)
	}
	qo.Lanes = true
	if !p.o.noFacts {
		qo.Tells = func() string { return "le" }
	}
	no.Tells = qo.Tells
	no.MaxAge = -1 // as in app: delivery ends notifications that are too old
	s := &process{pipeline: p, queueOfEvents: queue.New(p.db, qo), queueOfNotes: queue.New(p.db, no), stop: func() {}}
	for _, q := range []*queue.Queue{s.queueOfEvents, s.queueOfNotes} {
		if err := q.Init(p.Context()); err != nil {
			p.Fatal(err)
		}
	}
	s.devices = devices.New(p.db, p.rec, s.queueOfNotes, devices.Options{Logger: log})
	eo := events.Options{DB: p.db, Queue: s.queueOfEvents, Notifications: s.queueOfNotes, Record: p.rec, Logger: log, Tells: func(string) bool { return !p.o.noFacts },
		Broadcast: func(ctx context.Context, object string) (*api.Broadcast, error) {
			return s.broadcasts.Open(ctx, object)
		}}
	if p.o.events != nil {
		p.o.events(&eo)
	}
	s.events = events.New(eo)
	s.openWorkers(log)
	return s
}

func (s *process) openWorkers(log *slog.Logger) {
	if s.o.sender != nil {
		s.sender = s.o.sender(s.pipeline)
	} else {
		s.sender = s.mustAPNs()
	}
	s.Cleanup(func() { _ = s.sender.Close() })
	if channels, ok := s.sender.(broadcasts.Channels); ok {
		s.broadcasts = broadcasts.New(broadcasts.Options{DB: s.db, Record: s.rec, Channels: channels, Logger: log})
	}
	do := delivery.Options{
		Queue: s.queueOfNotes, Sender: s.sender, Devices: s.devices, Apps: apps.New(s.db, apps.Options{}), Events: s.events, Logger: log,
		ProbeEvery: 300 * time.Millisecond, Unrecorded: s.queueOfEvents.Unrecorded, Broadcasts: s.broadcasts,
		MaxAge: s.o.maxAge,
	}
	if s.o.waits {
		do.Sender = &postponing{s.sender, &s.postponed}
	}
	if s.o.delivery != nil {
		s.o.delivery(&do)
	}
	s.delivery = delivery.New(do)
	to := targeting.Options{
		Badges: badges.New(s.db, badges.Options{}).Reach,
		Events: s.events, Queue: s.queueOfEvents, Notifications: s.queueOfNotes, Devices: s.devices, Delivery: s.delivery, Logger: log, Broadcasts: s.broadcasts,
		MaxAge: s.o.maxAge,
		Pagers: map[string]targeting.Pager{
			events.KindContactsOf: s.rec.ContactsOf, events.KindTopic: s.rec.TopicUsers, events.KindAll: s.rec.UsersWithDevice, events.KindActivities: s.rec.UsersWithDevice,
		},
	}
	if s.o.target != nil {
		s.o.target(&to)
	}
	s.targeting = targeting.New(to)
}

func (p *pipeline) mustAPNs() transport.Sender {
	sender := apns.New(apns.Options{
		URL: p.apns.URL(), ManageURL: p.apns.ManageURL(), CAFile: p.apns.CAFile(), KeyFile: p.apns.KeyFile(), KeyID: p.apns.KeyID(), TeamID: p.apns.TeamID(),
	})
	storetest.Must(p, transport.Configure(sender, "", ""))
	return sender
}

// start runs the process' workers until stop or the test's end.
func (s *process) start() {
	ctx, cancel := context.WithCancel(s.Context())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{s.events.Run, s.targeting.Run, s.delivery.Run} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				s.Error(err)
			}
		})
	}
	s.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	s.Cleanup(s.stop)
}

// silentSender delivers every notification without any output.
func silentSender() *logsender.Sender {
	return logsender.New(slog.New(slog.DiscardHandler), func() bool { return false })
}

// token is the token of the n-th test device.
func token(n int) string { return fmt.Sprintf("%064x", n+1) }

// prefixOf begins the keys of a token's shard of notifications.
func (p *pipeline) prefixOf(token string) string {
	q := p.first.queueOfNotes
	return shard.Prefix(q.Name(), q.Route(token), q.Shards())
}

func (p *pipeline) mustDevice(user string, n int) {
	p.Helper()
	p.mustDeviceOf(user, token(n), apnstest.DefaultTopic)
}

func (p *pipeline) mustDeviceOf(user, token, topic string) {
	p.Helper()
	r := &api.DeviceRequest{Platform: "apns", Topic: topic, Environment: api.EnvProduction}
	storetest.Eventually(p, time.Minute, "the device is on record", func() bool {
		_, _, err := p.first.devices.PutDevice(p.Context(), user, token, r)
		if code := api.CodeOf(err); err != nil && code != api.CodeUnavailable && code != api.CodeUnknownOutcome {
			p.Fatal(err)
		}
		return err == nil // a busy machine may keep SQLite from answering in time
	})
}

func (p *pipeline) mustType(name string, r api.EventTypeRequest) {
	p.Helper()
	if _, _, err := p.first.events.PutEventType(p.Context(), name, &r, api.Match{}); err != nil {
		p.Fatal(err)
	}
}

// stored is an event's notification as another process stores it, in the form of the queue.
func (p *pipeline) stored(event, user string, d *api.Device) queue.Job {
	job := events.JobFor(p.first.queueOfNotes, event, d.Token, d.PlatformOf())
	device := struct {
		Token        string `cbor:"2,keyasint"`
		User         string `cbor:"3,keyasint"`
		Topic        string `cbor:"4,keyasint"`
		Other        bool   `cbor:"6,keyasint"`
		RegisteredAt int64  `cbor:"7,keyasint"`
	}{d.Token, user, d.Topic, d.Environment == "", d.RegisteredAt.UnixMilli()}
	text := struct {
		AcceptedAt int64  `cbor:"1,keyasint"`
		Payload    []byte `cbor:"9,keyasint"`
	}{time.Now().UnixMilli(), []byte(`{"aps":{"alert":"x"}}`)}
	job.Guard, job.Payload = devices.GuardName(d.Token), append(pack.Encode(&device), pack.Encode(&text)...)
	return job
}

// hello is an event with its own text, for users.
func hello(users ...string) *api.EventRequest {
	return &api.EventRequest{Type: "hello", Audience: api.Audience{Users: users}, Alert: &api.Alert{Title: "Hello"}}
}

func (p *pipeline) mustPost(r *api.EventRequest) (id string) {
	p.Helper()
	p.mustAccept(func(once api.Idempotency) error {
		a, _, err := p.first.events.Accept(p.Context(), r, once)
		if err == nil {
			id = a.ID
		}
		return err
	})
	p.posted.Lock()
	defer p.posted.Unlock()
	p.ids = append(p.ids, id)
	return id
}

// mustAccept lets something be accepted under a key of its own. A busy machine can be slower than Redis'
// time-out: then it is asked again.
func (p *pipeline) mustAccept(accept func(api.Idempotency) error) {
	p.Helper()
	once := api.Idempotency{Scope: p.scope, Key: fmt.Sprint(p.posts.Add(1))}
	for range 5 {
		err := accept(once)
		if err == nil {
			return
		}
		if code := api.CodeOf(err); code != api.CodeUnavailable && code != api.CodeUnknownOutcome {
			p.Fatal(err)
		}
	}
	p.Fatal("Redis stays out of reach")
}

func (p *pipeline) mustReport(id string) *api.EventReport {
	p.Helper()
	r, err := p.first.events.Report(p.Context(), id)
	if err != nil {
		p.Fatal(err)
	}
	return r
}

// mustEnd waits until an event is in a state, and returns its report.
func (p *pipeline) mustEnd(id string, state api.EventState) *api.EventReport {
	p.Helper()
	var last *api.EventReport
	defer func() {
		if p.Failed() {
			p.Logf("last report: %+v", last)
		}
	}()
	storetest.Eventually(p, soon, "the event to be "+string(state), func() bool {
		r, err := p.first.events.Report(p.Context(), id)
		if err != nil && api.CodeOf(err) != api.CodeUnavailable {
			p.Fatal(err)
		}
		if err == nil {
			last = r
		}
		return err == nil && r.State == state
	})
	return last
}

// counts are the counts of a report, so that they can be compared at once.
type counts struct{ recipients, notifications, delivered, failed, expired int64 }

func countsOf(r *api.EventReport) counts {
	recipients := int64(0)
	if r.Recipients != nil {
		recipients = *r.Recipients
	}
	return counts{recipients, r.Notifications, r.Delivered, r.Failed, r.Expired}
}

func (p *pipeline) mustCounts(r *api.EventReport, want counts) {
	p.Helper()
	if got := countsOf(r); got != want {
		p.Errorf("report %+v, want %+v", got, want)
	}
}

func (p *pipeline) device(user string, n int) *api.Device {
	p.Helper()
	list, err := p.first.devices.Devices(p.Context(), user)
	if err != nil {
		p.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Token == token(n) {
			return &list.Items[i]
		}
	}
	return nil
}

func TestPipeline(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		p := setup(t, options{db: db})
		p.mustType("photo.shared", api.EventTypeRequest{Title: "New", Body: "{{.actor}} in {{.data.album}}", Sound: "default"})
		p.mustDevice("bob", 1)
		id := p.mustPost(&api.EventRequest{
			Type: "photo.shared", Actor: "alice", Object: "album:1", Audience: api.Audience{Users: []string{"bob", "alice", "bob"}},
			Data: map[string]string{"album": "Sea & sun"},
		})
		r := p.mustEnd(id, api.EventDone)
		p.mustCounts(r, counts{2, 1, 1, 0, 0})
		if r.Type != "photo.shared" || r.Suppressed.IsActor != 1 || r.Retrying != 0 {
			t.Errorf("report %+v", r)
		}
		got := p.apns.Requests()
		if len(got) != 1 {
			t.Fatalf("%d requests, want 1", len(got))
		}
		req := got[0]
		if req.Token != token(1) || req.Topic != apnstest.DefaultTopic || req.PushType != "alert" || req.Priority != "10" ||
			req.ID != events.NotificationID(id, token(1)) || req.CollapseID != id {
			t.Errorf("request %+v", req)
		}
		want := `{"aps":{"alert":{"title":"New","body":"alice in Sea & sun"},"sound":"default"},"data":{"album":"Sea & sun"},` +
			`"event_id":"` + id + `","object":"album:1","type":"photo.shared"}`
		if string(req.Payload) != want || !json.Valid(req.Payload) {
			t.Errorf("payload %s\nwant %s", req.Payload, want)
		}
	})
}

// W5: devices of one event get the texts of their locales, sent with the event and claimed, and from the cache
// as from SQL. A device that registers without a locale gets the default texts from then on.
func TestW5_DevicesGetTheirLanguages(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"AtOnce": false, "Waits": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{waits: waits})
			p.mustType("hello", api.EventTypeRequest{Title: "Hello", Body: "{{.actor}}", Localized: map[string]api.LocalizedText{
				"de": {Title: "Hallo"}, "de-AT": {Title: "Servus"},
			}})
			register := func(n int, locale string) {
				t.Helper()
				r := &api.DeviceRequest{Platform: "apns", Topic: apnstest.DefaultTopic, Environment: api.EnvProduction, Locale: locale}
				_, _, err := p.first.devices.PutDevice(t.Context(), "bob", token(n), r)
				storetest.Must(t, err)
			}
			want := map[string]string{}
			for n, row := range [][2]string{{"", "Hello"}, {"de-CH", "Hallo"}, {"de-AT", "Servus"}, {"en-US", "Hello"}, {"DE", "Hallo"}} {
				register(n, row[0])
				want[token(n)] = row[1]
			}
			check := func() {
				t.Helper()
				p.apns.Reset()
				p.mustCounts(p.mustEnd(p.mustPost(&api.EventRequest{Type: "hello", Actor: "amy", Audience: api.Audience{Users: []string{"bob"}}}), api.EventDone), counts{1, 5, 5, 0, 0})
				for _, r := range p.apns.Requests() {
					if !strings.Contains(string(r.Payload), `{"alert":{"title":"`+want[r.Token]+`","body":"amy"}}`) {
						t.Errorf("%s got %s, want %s", r.Token, r.Payload, want[r.Token])
					}
				}
			}
			check() // from SQL
			check() // from the cache
			register(2, "")
			want[token(2)] = "Hello"
			check()
		})
	}
}
