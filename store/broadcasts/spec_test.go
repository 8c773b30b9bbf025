package broadcasts_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/broadcasts"
	"fanfare/store/storetest"
)

func TestG5_ChannelIsMadeOnce(t *testing.T) {
	t.Parallel()
	each(t, apnstest.Options{Latency: 50 * time.Millisecond}, func(w *world) {
		processes := []*broadcasts.Store{w.Store, w.process(), w.process()}
		var mu sync.Mutex
		channels, made := map[string]int{}, 0
		r := wanted(time.Hour, api.KeepLatest)
		storetest.AtOnce(w.t, 9, func(ctx context.Context, i int) error {
			b, fresh, err := processes[i%3].Put(ctx, "match:1", r)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			channels[b.Channel]++
			if fresh {
				made++
			}
			if b.State != api.BroadcastOpen || b.Topic != bundle || b.Keep != api.KeepLatest {
				return fmt.Errorf("it is %+v", b)
			}
			return nil
		})
		if len(channels) != 1 || made != 1 {
			w.t.Errorf("%d were told that it is new, of the channels %v", made, channels)
		}
		w.wantChannels(1)
	})
}

// The topic may be that of Live Activities. An end may change, and nothing else.
func TestPutBroadcast(t *testing.T) {
	t.Parallel()
	each(t, apnstest.Options{}, func(w *world) {
		r := wanted(time.Hour, api.KeepNone)
		r.Topic += api.PushLiveActivity.TopicSuffix()
		first, made, err := w.Put(w.t.Context(), "m", r)
		if err != nil || !made || first.Topic != bundle || first.Channel != w.Channels(bundle)[0] {
			w.t.Fatalf("%+v %v %v", first, made, err)
		}
		later := wanted(2*time.Hour, api.KeepNone)
		second, made, err := w.Put(w.t.Context(), "m", later)
		if err != nil || made || second.Channel != first.Channel || !second.EndsAt.Equal(later.EndsAt.Time) {
			w.t.Fatalf("%+v %v %v", second, made, err)
		}
		_, _, err = w.Put(w.t.Context(), "m", wanted(time.Hour, api.KeepLatest))
		storetest.WantCode(w.t, err, api.CodeConflict)
		_, _, err = w.Put(w.t.Context(), "n", wanted(-time.Hour, api.KeepLatest))
		storetest.WantCode(w.t, err, api.CodeValidation)
		w.wantChannels(1)
		if b, err := w.Get(w.t.Context(), "m"); err != nil || *b != *second {
			w.t.Errorf("it is %+v %v, want %+v", b, err, second)
		}
	})
}

func TestG5_Exhausted(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{MaxChannels: 1}, storetest.SQLite(t))
	w.mustPut("a")
	_, _, err := w.Put(t.Context(), "b", wanted(time.Hour, api.KeepNone))
	storetest.WantCode(t, err, api.CodeChannelsExhausted)
	_, err = w.Get(t.Context(), "b")
	storetest.WantCode(t, err, api.CodeNotFound)
	storetest.Must(t, w.Delete(t.Context(), "a"))
	w.mustPut("b")
}

// While the management host is away nothing is made; what is there stays.
func TestG6_ManagementHostAway(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{}, storetest.SQLite(t))
	a := w.mustPut("a")
	w.away()
	_, _, err := w.Put(t.Context(), "b", wanted(time.Hour, api.KeepNone))
	storetest.WantCode(t, err, api.CodeUnavailable)
	_, err = w.Get(t.Context(), "b")
	storetest.WantCode(t, err, api.CodeNotFound)
	if again := w.mustPut("a"); again.Channel != a.Channel {
		t.Errorf("the channel is %s, was %s", again.Channel, a.Channel)
	}
	storetest.Must(t, w.Delete(t.Context(), "a"))
	if b, err := w.Get(t.Context(), "a"); err != nil || b.State != api.BroadcastClosing {
		t.Errorf("it is %+v %v", b, err)
	}
	_, _, err = w.Put(t.Context(), "a", wanted(time.Hour, api.KeepNone))
	storetest.WantCode(t, err, api.CodeUnavailable)
	w.RefuseManagement(false)
	if again := w.mustPut("a"); again.Channel == a.Channel || again.State != api.BroadcastOpen {
		t.Errorf("after its deletion it is %+v", again)
	}
	w.wantChannels(1)
}

// A create whose answer was lost leaves one channel that nobody knows, and the same call again makes another one.
func TestG5_LostAnswer(t *testing.T) {
	t.Parallel()
	each(t, apnstest.Options{}, func(w *world) {
		w.ScriptManagement(apnstest.Failing(apnstest.Drop), apnstest.Answer{})
		_, _, err := w.Put(w.t.Context(), "m", wanted(time.Hour, api.KeepNone))
		storetest.WantCode(w.t, err, api.CodeUnknownOutcome)
		if b, err := w.Get(w.t.Context(), "m"); err != nil || b.State != api.BroadcastMaking || b.Channel != "" {
			w.t.Errorf("it is %+v %v", b, err)
		}
		_, err = w.Open(w.t.Context(), "m")
		storetest.WantCode(w.t, err, api.CodeValidation)
		b := w.mustPut("m")
		w.wantChannels(2)
		w.run((*broadcasts.Store).Compare, func() bool { return w.counted()["list done"] >= 2 && w.unknownOf() == 1 })
		for _, channel := range w.Channels(bundle) {
			if told := strings.Contains(w.log.String(), channel); told == (channel == b.Channel) {
				w.t.Errorf("the log tells of %s: %v; the broadcast has %s", channel, told, b.Channel)
			}
		}
		w.wantChannels(2) // nobody deletes it: it may be another's
	})
}

// unknownOf is the number of channels that nobody knows; -1: nobody has counted.
func (w *world) unknownOf() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n, ok := w.unknown[bundle+"/production"]; ok {
		return n
	}
	return -1
}

// run runs a loop of the first process until something has happened.
func (w *world) run(loop func(*broadcasts.Store, context.Context) error, until func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- loop(w.Store, ctx) }()
	storetest.Eventually(w.t, soon, "the loop has done it", until)
	cancel()
	storetest.Must(w.t, <-done)
}

// A process that dies after APNs made the channel leaves a broadcast that is being made.
func TestG5_RecordAwayAfterTheAnswer(t *testing.T) {
	t.Parallel()
	database := storetest.MySQL(t)
	proxy, through := storetest.ProxyTo(t, database)
	w := setup(t, apnstest.Options{}, through)
	w.mustPut("before")
	w.ScriptManagement(apnstest.After(500 * time.Millisecond))
	go func() {
		if w.Managed.WaitTotal(2, soon) == nil {
			proxy.Cut()
		}
	}()
	_, _, err := w.Put(t.Context(), "m", wanted(time.Hour, api.KeepNone))
	if !api.Passing(err) {
		t.Fatalf("got %v", err)
	}
	proxy.Mend()
	w.ScriptManagement()
	b := w.mustPut("m")
	channels := w.Channels(bundle)
	t.Logf("%v, and then the channels %v", err, channels)
	if api.CodeOf(err) == api.CodeUnavailable && len(channels) != 2 { // it was deleted again: nobody else can know it
		t.Errorf("the channels are %v, the broadcast has %s", channels, b.Channel)
	}
}

// A record that hangs after APNs made the channel leaves none that nobody knows: there is time to delete it.
func TestG5_RecordHangsAfterTheAnswer(t *testing.T) {
	t.Parallel()
	proxy, through := storetest.ProxyTo(t, storetest.MySQL(t))
	w := setup(t, apnstest.Options{}, through)
	before := w.mustPut("before")
	w.ScriptManagement(apnstest.After(500 * time.Millisecond))
	go func() {
		if w.Managed.WaitTotal(2, soon) == nil {
			proxy.Hold(true)
		}
	}()
	_, _, err := w.Put(t.Context(), "m", wanted(time.Hour, api.KeepNone))
	storetest.WantCode(t, err, api.CodeUnavailable)
	if left := w.Channels(bundle); len(left) != 1 || left[0] != before.Channel {
		t.Errorf("the channels are %v", left)
	}
	proxy.Hold(false)
}

// refusing is a host that does not delete the channels of an app.
type refusing struct {
	broadcasts.Channels
	topic string
	code  api.Code
}

func (r refusing) DeleteChannel(ctx context.Context, topic string, environment api.Environment, channel string) error {
	if topic == r.topic {
		return api.Errorf(r.code, "no channel of %s is deleted", topic)
	}
	return r.Channels.DeleteChannel(ctx, topic, environment, channel)
}

// However many channels of an app cannot be deleted, because the app is gone or its host is away: those of others are.
func TestG5_OneAppDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	for _, code := range []api.Code{api.CodeUnknownApp, api.CodeUnavailable} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			w := setup(t, apnstest.Options{}, storetest.SQLite(t))
			w.mustPut("zulu")
			rec := storetest.Record(t, w.url)
			for i := range 250 {
				object, r := fmt.Sprintf("gone-%03d", i), wanted(time.Minute, api.KeepNone)
				r.Topic = "gone"
				b, _, err := rec.BeginBroadcast(t.Context(), object, r)
				storetest.Must(t, err)
				_, err = rec.OpenBroadcast(t.Context(), b, "c")
				storetest.Must(t, err)
				storetest.Must(t, rec.CloseBroadcast(t.Context(), object))
			}
			w.Store = w.process(func(o *broadcasts.Options) {
				o.SweepEvery, o.Grace, o.Channels = 20*time.Millisecond, -2*time.Hour, refusing{o.Channels, "gone", code}
			})
			w.run((*broadcasts.Store).Sweep, func() bool {
				_, err := w.Get(t.Context(), "zulu")
				return api.CodeOf(err) == api.CodeNotFound
			})
			w.wantChannels(0)
		})
	}
}

// The process deletes channels two hours before the end instead of an hour after it, so that nothing has to wait.
func TestG5_DeletedAfterTheEnd(t *testing.T) {
	t.Parallel()
	each(t, apnstest.Options{}, func(w *world) {
		ended := w.mustPut("ended")
		goesOn, _, err := w.Put(w.t.Context(), "goes-on", wanted(3*time.Hour, api.KeepNone))
		storetest.Must(w.t, err)
		w.Store = w.process(func(o *broadcasts.Options) { o.SweepEvery, o.Grace = 20*time.Millisecond, -2*time.Hour })
		w.away()
		w.run((*broadcasts.Store).Sweep, func() bool { return strings.Contains(w.log.String(), "is not deleted yet") })
		w.RefuseManagement(false)
		w.run((*broadcasts.Store).Sweep, func() bool {
			_, err := w.Get(w.t.Context(), "ended")
			return api.CodeOf(err) == api.CodeNotFound
		})
		if left := w.Channels(bundle); len(left) != 1 || left[0] != goesOn.Channel || goesOn.Channel == ended.Channel {
			w.t.Errorf("the channels are %v", left)
		}
		if n := w.counted()["delete done"]; n != 1 {
			w.t.Errorf("%d channels were deleted", n)
		}
	})
}

// A process that is not told otherwise deletes a channel when its broadcast ended an hour ago, and not before.
func TestG5_AnHourAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{}, storetest.SQLite(t))
	for _, object := range []string{"first", "second", "young"} {
		w.mustPut(object)
	}
	w.mustHaveEnded("first", time.Hour+time.Minute)
	w.mustHaveEnded("young", time.Hour-5*time.Minute)
	gone := func(object string) bool {
		_, err := w.Get(t.Context(), object)
		return api.CodeOf(err) == api.CodeNotFound
	}
	w.Store = w.process(func(o *broadcasts.Options) { o.SweepEvery = 20 * time.Millisecond })
	first := false
	w.run((*broadcasts.Store).Sweep, func() bool {
		if !first && gone("first") { // the sweep that finds the second as well comes after one that could find the young one
			first = true
			w.mustHaveEnded("second", time.Hour+time.Minute)
		}
		return first && gone("second")
	})
	if b, err := w.Get(t.Context(), "young"); err != nil || b.State != api.BroadcastOpen {
		t.Errorf("the broadcast that ended less than an hour ago is %+v, %v", b, err)
	}
	w.wantChannels(1)
}

// mustHaveEnded sets the end of a broadcast in the past, which no call does. The record is SQLite.
func (w *world) mustHaveEnded(object string, ago time.Duration) {
	w.t.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(w.url, "sqlite:"))
	storetest.Must(w.t, err)
	defer func() { _ = db.Close() }()
	storetest.Eventually(w.t, soon, "the end is on record", func() bool { // another write may be under way
		_, err := db.ExecContext(w.t.Context(), "UPDATE broadcasts SET ends_at = ? WHERE object = ?", time.Now().Add(-ago).UnixMilli(), object)
		return err == nil
	})
}

// listing is a management host that notes when it is asked for its channels.
type listing struct {
	broadcasts.Channels
	channels []string
	mu       sync.Mutex
	asked    []time.Time
}

func (l *listing) ListChannels(context.Context, string, api.Environment) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, time.Now())
	return l.channels, nil
}

// A process compares the channels of an app soon after its start, and then once a day. Time passes by synctest's clock.
func TestG5_ComparedOnceADay(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{}, storetest.SQLite(t))
	b := w.mustPut("m")
	synctest.Test(t, func(t *testing.T) {
		host, started := &listing{channels: []string{b.Channel}}, time.Now()
		s := broadcasts.New(broadcasts.Options{DB: w.redis, Record: storetest.Record(t, w.url), Channels: host, Poll: 12 * time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		for _, loop := range []func(context.Context) error{s.Run, s.Compare} {
			loops.Go(func() {
				if err := loop(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(73 * time.Hour) //nolint:forbidigo // by synctest's clock
		cancel()
		loops.Wait()
		if n := len(host.asked); n != 4 {
			t.Fatalf("the channels were compared %d times in three days and an hour", n)
		}
		if soon := host.asked[0].Sub(started); soon > time.Minute {
			t.Errorf("they were compared first after %v", soon)
		}
		for i, at := range host.asked[1:] {
			if gap := at.Sub(host.asked[i]); gap < 22*time.Hour || gap > 25*time.Hour {
				t.Errorf("they were compared again after %v", gap)
			}
		}
	})
}

// A channel that APNs no longer knows is replaced by the same call again.
func TestG6_LostChannel(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{}, storetest.SQLite(t))
	first := w.mustPut("m")
	w.DropChannels(bundle)
	storetest.Must(t, w.Lose(t.Context(), "m", first.Channel))
	if b := w.Known("m"); b == nil || b.State != api.BroadcastLost {
		t.Fatalf("it is %+v", b)
	}
	_, err := w.Open(t.Context(), "m")
	storetest.WantCode(t, err, api.CodeValidation)
	second := w.mustPut("m")
	storetest.Must(t, w.Lose(t.Context(), "m", first.Channel)) // an old answer
	if b, err := w.Open(t.Context(), "m"); err != nil || b.Channel != second.Channel || b.Channel == first.Channel {
		t.Fatalf("it is %+v %v", b, err)
	}
	w.DropChannels(bundle)
	storetest.Must(t, w.Delete(t.Context(), "m"))
	_, err = w.Get(t.Context(), "m")
	storetest.WantCode(t, err, api.CodeNotFound)
}

// While SQL is away a process knows the broadcasts that it knew.
func TestG6_SQLAway(t *testing.T) {
	t.Parallel()
	proxy, through := storetest.ProxyTo(t, storetest.MySQL(t))
	w := setup(t, apnstest.Options{}, through)
	b := w.mustPut("m")
	other := w.process()
	_, err := other.Open(t.Context(), "m")
	storetest.Must(t, err)
	w.Store = other
	w.run((*broadcasts.Store).Run, func() bool { return w.Known("m") != nil })
	proxy.Cut()
	known, err := w.Open(t.Context(), "m")
	if err != nil || known.Channel != b.Channel {
		t.Errorf("it is %+v %v", known, err)
	}
	_, err = w.Open(t.Context(), "another")
	storetest.WantCode(t, err, api.CodeUnavailable)
	_, _, err = w.Put(t.Context(), "another", wanted(time.Hour, api.KeepNone))
	storetest.WantCode(t, err, api.CodeUnavailable)
	w.wantChannels(1)
}

func TestSentTimes(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{}, storetest.SQLite(t))
	w.mustPut("a")
	w.mustPut("b")
	at := time.UnixMilli(1_800_000_000_123)
	w.NoteSent("a", at)
	w.NoteSent("a", at.Add(-time.Second))
	w.run((*broadcasts.Store).RunSent, func() bool {
		b, err := w.Get(t.Context(), "a")
		return err == nil && b.SentAt != nil
	})
	all, err := w.List(t.Context(), "", 10)
	if err != nil || len(all) != 2 || !all[0].SentAt.Equal(at) || all[1].SentAt != nil {
		t.Errorf("the list is %+v %v", all, err)
	}
	storetest.Must(t, w.Delete(t.Context(), "a"))
	w.NoteSent("a", at) // of the last update, which is not written yet
	w.NoteSent("b", at)
	w.run((*broadcasts.Store).RunSent, func() bool {
		b, err := w.Get(t.Context(), "b")
		return err == nil && b.SentAt != nil
	})
	if b := w.mustPut("a"); b.SentAt != nil {
		t.Errorf("made again it is %+v", b)
	}
}
