package broadcasts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/store/lock"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

const (
	// Grace is how long a channel stays after its broadcast has ended.
	Grace = time.Hour
	// lease is how long the lock of an object is held at most; whoever holds it makes or deletes one channel.
	lease = 30 * time.Second
	// reserve is the time of a call that is left for the record once APNs has answered.
	reserve = time.Second
	// manageWithin bounds a call to the management host.
	manageWithin = 10 * time.Second
	// attempts is the number of holders of a lock that may die. There is no end to it: a channel that was lost is counted.
	attempts = 1 << 30
	// recordWithin bounds what is told to the record and to Redis after the answer of the management host.
	recordWithin = 5 * time.Second
)

// Channels is the management host of APNs. Its errors are of these codes of package api: unavailable if nothing
// happened, unknown_outcome, channels_exhausted, channels_refused, not_found for a channel that is not there, and
// internal. delivery/apns and delivery/logsender implement it.
type Channels interface {
	// TakesBroadcast reports whether there is an app for a bundle id.
	TakesBroadcast(topic string, environment api.Environment) bool
	// CreateChannel makes a channel and returns its name.
	CreateChannel(ctx context.Context, topic string, environment api.Environment, keep api.BroadcastKeep) (channel string, err error)
	// DeleteChannel deletes a channel for good.
	DeleteChannel(ctx context.Context, topic string, environment api.Environment, channel string) error
	// ListChannels names all channels of an app.
	ListChannels(ctx context.Context, topic string, environment api.Environment) ([]string, error)
}

// Options configure a Store. DB, Record and Channels are needed.
type Options struct {
	DB       *redisdb.DB
	Record   *record.DB
	Channels Channels
	// Logger hears of what Run fails to do; default: nobody.
	Logger *slog.Logger
	// Poll is how long after a reading of the broadcasts' version the next one comes at the latest; default 500 ms.
	Poll time.Duration
	// Grace is how long a channel stays after its broadcast has ended; default Grace.
	Grace time.Duration
	// SweepEvery is how often a process looks for channels to delete; default 1 min.
	SweepEvery time.Duration
	// CompareSoon is the longest time before a process compares the channels of an app that it has just met; default 10 s.
	CompareSoon time.Duration
	// OnManaged is called with each call to the management host (create, delete or list) and its outcome: done, or the
	// code of its error.
	OnManaged func(call, outcome string)
	// OnCompared is called with the number of an app's channels that nobody knows.
	OnCompared func(app string, unknown int)
}

// Store has the broadcasts. It may be used from any goroutine.
type Store struct {
	o     Options
	locks *lock.Locker
	snap  atomic.Pointer[snapshot]
	mu    sync.Mutex // one load at a time
	sent  sentTimes
}

// snapshot is what a process knows of all broadcasts.
type snapshot struct {
	version int64
	all     map[string]*api.Broadcast // by object
}

// New makes a Store. It starts nothing.
func New(o Options) *Store {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Poll, o.Grace, o.SweepEvery = cmp.Or(o.Poll, 500*time.Millisecond), cmp.Or(o.Grace, Grace), cmp.Or(o.SweepEvery, time.Minute)
	o.CompareSoon = cmp.Or(o.CompareSoon, 10*time.Second)
	if o.OnManaged == nil {
		o.OnManaged = func(string, string) {}
	}
	if o.OnCompared == nil {
		o.OnCompared = func(string, int) {}
	}
	return &Store{o: o, locks: lock.New(o.DB, lock.Options{Name: "broadcasts", Lease: lease, MaxAttempts: attempts})}
}

// lockOf names the lock of an object, which may be longer than the name of a lock.
func lockOf(object string) string {
	sum := sha256.Sum256([]byte(object))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Put makes a broadcast with its channel, or changes its end. made reports whether a channel was made. The request has
// been validated.
func (s *Store) Put(ctx context.Context, object string, r *api.BroadcastRequest) (b *api.Broadcast, made bool, err error) {
	r = r.Normal()
	if !s.o.Channels.TakesBroadcast(r.Topic, r.Environment) {
		return nil, false, api.Errorf(api.CodeUnknownApp, "there is no app of APNs for the topic %s in the environment %s", r.Topic, r.Environment)
	}
	hold, err := s.locks.Acquire(ctx, lockOf(object))
	if errors.Is(err, context.DeadlineExceeded) {
		err = api.Errorf(api.CodeUnavailable, "another call makes or deletes the channel of %s", object).Because(err)
	}
	if err != nil {
		return nil, false, err
	}
	defer s.release(ctx, hold.Lease)
	defer s.refresh(ctx)
	row, fresh, err := s.o.Record.BeginBroadcast(ctx, object, r)
	if err == nil && row.State == string(api.BroadcastClosing) {
		if err = s.remove(ctx, row); err == nil {
			row, fresh, err = s.o.Record.BeginBroadcast(ctx, object, r)
		}
	}
	if err != nil {
		return nil, false, err
	}
	if row.State == string(api.BroadcastMaking) {
		made = true
		err = s.make(ctx, hold.Lease, row, fresh)
	}
	if err != nil {
		return nil, false, err
	}
	return s.show(ctx, row), made, nil
}

// release gives a lock back, also when the caller has gone.
func (s *Store) release(ctx context.Context, l *lock.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	if _, err := l.Release(ctx); err != nil {
		s.o.Logger.DebugContext(ctx, "the lock of a broadcast ends by itself", "error", err)
	}
}

// make asks for the channel of a broadcast and gives it to the record. It goes on when the caller has gone: the answer
// would be lost.
func (s *Store) make(ctx context.Context, l *lock.Lease, row *record.Broadcast, fresh bool) error {
	if !l.Alive() {
		return api.Errorf(api.CodeUnavailable, "the lock of the broadcast was lost")
	}
	channel, err := s.create(ctx, row)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	if err != nil {
		if fresh && api.CodeOf(err) != api.CodeUnknownOutcome {
			s.forget(after, row)
		}
		return err
	}
	opened, err := s.o.Record.OpenBroadcast(after, row, channel)
	switch {
	case err == nil && opened:
		row.Channel, row.State = channel, string(api.BroadcastOpen)
		return nil
	case err == nil:
		err = api.Errorf(api.CodeUnavailable, "another call changed the broadcast")
	case api.CodeOf(err) == api.CodeUnknownOutcome:
		return err // the record may have the channel
	}
	if deleted := s.delete(context.WithoutCancel(ctx), row.Topic, row.Environment, channel); deleted != nil {
		s.o.Logger.WarnContext(ctx, "a channel was made that nobody will know", "object", row.Object, "channel", channel, "error", deleted)
	}
	return err
}

// create asks for a channel, and leaves the call some time for the record.
func (s *Store) create(ctx context.Context, row *record.Broadcast) (channel string, err error) {
	until := time.Now().Add(manageWithin)
	if end, ok := ctx.Deadline(); ok && end.Add(-reserve).Before(until) {
		until = end.Add(-reserve)
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	channel, err = s.o.Channels.CreateChannel(ctx, row.Topic, api.Environment(row.Environment), api.BroadcastKeep(row.Keep))
	s.managed("create", err)
	return channel, err
}

// delete deletes a channel; one that is not there is no error.
func (s *Store) delete(ctx context.Context, topic, environment, channel string) error {
	ctx, cancel := context.WithTimeout(ctx, manageWithin)
	defer cancel()
	err := s.o.Channels.DeleteChannel(ctx, topic, api.Environment(environment), channel)
	s.managed("delete", err)
	if api.CodeOf(err) == api.CodeNotFound {
		return nil
	}
	return err
}

func (s *Store) managed(call string, err error) {
	s.o.OnManaged(call, cmp.Or(string(api.CodeOf(err)), "done"))
}

// forget removes a broadcast that has no channel. If that fails, the broadcast stays as one whose channel is being made.
func (s *Store) forget(ctx context.Context, row *record.Broadcast) {
	if err := s.o.Record.ForgetBroadcast(ctx, row); err != nil {
		s.o.Logger.WarnContext(ctx, "a broadcast without a channel stays on record until its end", "object", row.Object, "error", err)
	}
}

// Delete says on record that a broadcast is over and deletes its channel. If the channel cannot be deleted now, Sweep
// does it later, and the broadcast is closing until then. One that is not there is no error.
func (s *Store) Delete(ctx context.Context, object string) error {
	if err := s.o.Record.CloseBroadcast(ctx, object); err != nil {
		return err
	}
	s.refresh(ctx)
	if err := s.end(ctx, object); err != nil {
		s.o.Logger.InfoContext(ctx, "the channel of a deleted broadcast is deleted later", "object", object, "error", err)
	}
	return nil
}

// end deletes the channel of a broadcast that is closing or has ended, and the broadcast, unless another process is at
// it.
func (s *Store) end(ctx context.Context, object string) error {
	hold, err := s.locks.TryAcquire(ctx, lockOf(object))
	if err != nil || hold.Status != lock.Acquired {
		return err
	}
	defer s.release(ctx, hold.Lease)
	closing, err := s.o.Record.CloseEnded(ctx, object, s.o.Grace)
	if api.CodeOf(err) == api.CodeNotFound || err == nil && !closing {
		return nil
	}
	if err != nil {
		return err
	}
	row, err := s.o.Record.Broadcast(ctx, object)
	if err != nil {
		return err
	}
	return s.remove(ctx, row)
}

// remove deletes the channel of a broadcast that is closing, and then the broadcast.
func (s *Store) remove(ctx context.Context, row *record.Broadcast) error {
	if row.Channel != "" {
		if err := s.delete(ctx, row.Topic, row.Environment, row.Channel); err != nil {
			return err
		}
	}
	if err := s.o.Record.RemoveBroadcast(ctx, row); err != nil {
		return err
	}
	s.refresh(ctx)
	return s.forgetSent(ctx, row.Object)
}

// Get reads a broadcast from the record; api.CodeNotFound when there is none.
func (s *Store) Get(ctx context.Context, object string) (*api.Broadcast, error) {
	row, err := s.o.Record.Broadcast(ctx, object)
	if err != nil {
		return nil, err
	}
	return s.show(ctx, row), nil
}

// List reads at most limit broadcasts from the record by their objects, from the one after a given object on ("": from
// the first).
func (s *Store) List(ctx context.Context, after string, limit int) ([]api.Broadcast, error) {
	rows, err := s.o.Record.Broadcasts(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	all := make([]*api.Broadcast, len(rows))
	for i := range rows {
		all[i] = rows[i].Show()
	}
	s.tellSent(ctx, all...)
	out := make([]api.Broadcast, len(all))
	for i, b := range all {
		out[i] = *b
	}
	return out, nil
}

func (s *Store) show(ctx context.Context, row *record.Broadcast) *api.Broadcast {
	b := row.Show()
	s.tellSent(ctx, b)
	return b
}

// Lose notes that APNs no longer knows the channel of a broadcast.
func (s *Store) Lose(ctx context.Context, object, channel string) error {
	lost, err := s.o.Record.LoseBroadcast(ctx, object, channel)
	if lost {
		s.o.Logger.WarnContext(ctx, "APNs no longer knows the channel of a broadcast", "object", object, "channel", channel)
		s.refresh(ctx)
	}
	return err
}
