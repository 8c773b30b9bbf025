package webhooks

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

//go:embed lua/*.lua
var scripts embed.FS

const (
	// pollEvery is how often Run looks for changes of other processes.
	pollEvery = time.Second
	// readEvery is how often it reads all webhooks although nobody has changed one: by then a secret may have ended.
	readEvery = time.Minute
	// defaultOutdated is the default of Options.Outdated.
	defaultOutdated = time.Minute
	// secretBytes is the size of a secret.
	secretBytes = 32
	// secretPrefix begins a secret, so that it can be told from other ones (Standard Webhooks).
	secretPrefix = "whsec_"
)

// Feed has the facts, in lanes (store/facts).
type Feed interface {
	// Lanes is how many lanes there are.
	Lanes() int
	// Ends are the positions behind the last facts of all lanes, and End is that of one lane.
	Ends(ctx context.Context) ([]string, error)
	End(ctx context.Context, lane int) (string, error)
	// ReadLane reads facts of some types after a position ("": from the oldest there is), at most that many and that many
	// bytes, but one in any case. next is the position after them and after those of other types, and gap how many facts
	// after the position are kept no longer.
	ReadLane(ctx context.Context, lane int, after string, types func(string) bool, most, bytes int) (facts []api.Fact, next string, gap int64, err error)
	// Oldest finds since when the oldest fact of some types is there that comes after positions in all lanes; zero: there is none.
	// It reads a bounded number of facts. If that is not enough, it is not sure, and what there is came at since or later.
	Oldest(ctx context.Context, after []string, types func(string) bool) (since time.Time, sure bool, err error)
	// Between is how many facts, of all types, there were between two positions in a lane.
	Between(from, to string) int64
	// Join returns a channel that gets a value when there may be new facts, and leave, which must be called.
	Join(ctx context.Context) (told <-chan struct{}, leave func())
	// PositionOf is the position in all lanes that some positions in the lanes are, and LanesOf reads it.
	PositionOf(lanes []string) (string, error)
	LanesOf(ctx context.Context, position string) ([]string, error)
}

// Options configure a Store. Record, DB, Beside and Feed are needed.
type Options struct {
	Record *record.DB
	DB     *redisdb.DB
	// Beside names a key in the slot of a lane.
	Beside func(lane int, name string) string
	Feed   Feed
	// Plain allows URLs without TLS.
	Plain bool
	// Outdated is after how long a process that cannot read the webhooks forgets them, because they may have been deleted; default 1 min.
	Outdated time.Duration
	// Logger hears of a database that is away; default: nobody.
	Logger *slog.Logger
}

// Store has the webhooks. It may be used from any goroutine.
type Store struct {
	o           Options
	begin, step *redisdb.Script
	known       atomic.Pointer[known]
	checked     time.Time // when Load was last sure of what is known
}

// known are the webhooks as they were read last. It is never changed once published.
type known struct {
	version int64
	read    time.Time
	all     map[string]*record.Webhook
	changed chan struct{} // closed when there are newer ones
}

// New makes a Store. It starts nothing.
func New(o Options) *Store {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Outdated = cmp.Or(o.Outdated, defaultOutdated)
	s := &Store{o: o, begin: redisdb.MustScript(scripts, "lua/webhook_begin.lua"), step: redisdb.MustScript(scripts, "lua/webhook_step.lua")}
	s.known.Store(&known{version: -1, changed: make(chan struct{})})
	return s
}

// Run keeps what All returns fresh until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	record.Follow(ctx, s.o.Logger, "webhooks", pollEvery, s.Load)
	return nil
}

// Load reads the webhooks if one was changed. If it could not for as long as Options.Outdated, there are none for All until it can again,
// so that a process that is cut off from the database sends nothing to a webhook that was deleted. It must not run twice at once.
func (s *Store) Load(ctx context.Context) error {
	began := time.Now()
	if len(s.known.Load().all) > 0 { // a query without an answer must not put that off
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(pollEvery, s.o.Outdated-time.Since(s.checked)))
		defer cancel()
	}
	if err := s.load(ctx); err != nil {
		if len(s.known.Load().all) > 0 && time.Since(s.checked) >= s.o.Outdated {
			s.publish(&known{version: -1})
		}
		return err
	}
	s.checked = began
	return nil
}

func (s *Store) load(ctx context.Context) error {
	old := s.known.Load()
	version, err := s.o.Record.Version(ctx, record.VersionWebhooks)
	if err != nil || version == old.version && time.Since(old.read) < readEvery {
		return err
	}
	list, err := s.o.Record.Webhooks(ctx)
	if err != nil {
		return err
	}
	next := &known{version: version, read: time.Now(), all: make(map[string]*record.Webhook, len(list))}
	for i := range list {
		next.all[list[i].ID] = &list[i]
	}
	s.publish(next)
	return nil
}

// publish makes webhooks those that are known, and tells everybody.
func (s *Store) publish(next *known) {
	next.changed = make(chan struct{})
	close(s.known.Swap(next).changed)
}

// All returns the webhooks by id, as they were read last, and a channel that is closed when there are newer ones. Nothing
// of it may be changed.
func (s *Store) All() (all map[string]*record.Webhook, changed <-chan struct{}) {
	k := s.known.Load()
	return k.all, k.changed
}

// Put creates or replaces a webhook, if the condition holds for its present version. The request has been validated. A new
// webhook gets facts from now on, and secret signs its requests; of one that was there before, secret is "". An error is of
// api.CodeVersionMismatch with the present webhook if the condition does not hold, of api.CodeValidation for a URL without TLS
// that is not allowed, and of api.CodeTooManyNames for one webhook too many.
func (s *Store) Put(ctx context.Context, id string, r *api.WebhookRequest, m api.Match) (w *api.Webhook, secret string, err error) {
	wanted := *r
	wanted.State = cmp.Or(r.State, api.WebhookOn)
	if wanted.Max == nil {
		wanted.Max = new(int64(api.DefaultWebhookMax))
	}
	if u, ok := api.ParseWebhookURL(r.URL); !s.o.Plain && (!ok || u.Scheme != "https") {
		return nil, "", api.Invalid("url", "https", "must begin with https: http is for the networks in FANFARE_WEBHOOK_NETS, and there are none")
	}
	made := record.NewWebhook{}
	all, created, err := s.o.Record.PutWebhook(ctx, id, &wanted, m, made)
	if errors.Is(err, record.ErrNewWebhook) {
		made = record.NewWebhook{Secret: newSecret(), Series: rand.Text()}
		// The positions come first: once the webhook is on record, they are there. If it is made by another call at the same
		// time, these are never read, and expire.
		if err := s.toEnd(ctx, made.Series); err != nil {
			return nil, "", err
		}
		all, created, err = s.o.Record.PutWebhook(ctx, id, &wanted, m, made)
	}
	if err != nil {
		return nil, "", err
	}
	if created {
		secret = made.Secret
	}
	return &all.Webhook, secret, nil
}

// toEnd lets a series begin at the ends of all lanes.
func (s *Store) toEnd(ctx context.Context, series string) error {
	ends, err := s.o.Feed.Ends(ctx)
	if err != nil {
		return err
	}
	return s.set(ctx, series, ends, 0)
}

// set sets the positions of a series in all lanes, wherever they are. replay is 1 or 0.
func (s *Store) set(ctx context.Context, series string, positions []string, replay int) error {
	cmds := make([]redis.Cmder, len(positions))
	for lane, at := range positions {
		cmds[lane] = s.begin.Cmd(ctx, []string{s.key(series, lane)}, at, progressTTL.Milliseconds(), replay)
	}
	if err := s.o.DB.Pipeline(ctx, redisdb.Write, cmds...); err != nil {
		return err
	}
	return redisdb.FirstError(cmds)
}

// newSecret makes a secret.
func newSecret() string {
	var b [secretBytes]byte
	rand.Read(b[:]) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(b[:])
}

// KeyOf is the key that a secret stands for.
func KeyOf(secret string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	if err != nil {
		return nil, fmt.Errorf("a webhook's secret is not %s and base64", secretPrefix) // the cause quotes nothing, but shows where
	}
	return key, nil
}

// AddSecret gives a webhook another secret. The one before it signs as well for 24 h. api.CodeTooManyNames when three sign, and
// api.CodeNotFound when there is no such webhook.
func (s *Store) AddSecret(ctx context.Context, id string) (w *api.Webhook, secret string, err error) {
	secret = newSecret()
	all, err := s.o.Record.AddWebhookSecret(ctx, id, secret)
	if err != nil {
		return nil, "", err
	}
	return &all.Webhook, secret, nil
}

// Get reads a webhook with its secrets; api.CodeNotFound when there is none.
func (s *Store) Get(ctx context.Context, id string) (*record.Webhook, error) {
	return s.o.Record.Webhook(ctx, id)
}

// List reads all webhooks by id.
func (s *Store) List(ctx context.Context) ([]api.Webhook, error) {
	found, err := s.o.Record.Webhooks(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]api.Webhook, len(found))
	for i := range found {
		all[i] = found[i].Webhook
	}
	return all, nil
}

// Delete removes a webhook, if the condition holds for its present version; otherwise api.CodeVersionMismatch. Without a
// condition, removing one that is not there changes nothing. Who sends stops within 2 s.
func (s *Store) Delete(ctx context.Context, id string, m api.Match) error {
	return s.o.Record.DeleteWebhook(ctx, id, m)
}

// End turns a webhook off because its receiver said so, unless it was changed since w was read.
func (s *Store) End(ctx context.Context, w *record.Webhook) error {
	return s.o.Record.EndWebhook(ctx, w)
}
