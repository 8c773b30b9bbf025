package e2e

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// fleet is a number of servers with faults.
type fleet struct {
	mu      sync.Mutex
	t       *testing.T
	vars    []string
	servers []*program
	faults  []fault
	redis   *storetest.RedisServer
}

// all returns the present servers.
func (f *fleet) all() []*program {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*program(nil), f.servers...)
}

// suffer records a fault and returns its number.
func (f *fleet) suffer(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, now(what))
	return len(f.faults) - 1
}

// recover records the end of a fault.
func (f *fleet) recover(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[n].to = time.Now()
}

// kill ends a server with kill -9 and starts another one in its place.
func (f *fleet) kill() {
	victim := rand.IntN(len(f.servers))
	n := f.suffer("kill -9")
	f.all()[victim].kill()
	f.recover(n)
	fresh := mustServeMany(f.t, 1, f.vars...)[0]
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers[victim] = fresh
}

// freeze stops a server for longer than its leases.
func (f *fleet) freeze(d time.Duration) {
	victim := f.all()[rand.IntN(len(f.servers))]
	n := f.suffer("SIGSTOP past the lease")
	_ = victim.cmd.Process.Signal(syscall.SIGSTOP)
	<-time.After(d)
	_ = victim.cmd.Process.Signal(syscall.SIGCONT)
	f.recover(n)
}

// cutOff freezes Redis.
func (f *fleet) cutOff(d time.Duration) {
	n := f.suffer("Redis cut off")
	f.redis.Pause()
	<-time.After(d)
	f.redis.Resume()
	f.recover(n)
}

// hangUp closes every connection to Redis.
func (f *fleet) hangUp() {
	n := f.suffer("CLIENT KILL")
	client := f.redis.Client()
	for _, kind := range []string{"normal", "pubsub"} {
		if err := client.ClientKillByFilter(f.t.Context(), "TYPE", kind, "SKIPME", "yes").Err(); err != nil {
			f.t.Errorf("client kill: %v", err)
		}
	}
	f.recover(n)
}

// 5 servers get 10,000 events to 10,000 devices (fewer by default) while servers are killed, frozen past their leases
// and cut off from Redis. Every (event, device) arrives. Repeats have the same apns-id and occur
// only in the window of A15.
func TestA15_ChaosLosesNothing(t *testing.T) {
	t.Parallel()
	n := storetest.Sized(10_000, 4000)
	apns, redis := startAPNs(t, 100*time.Millisecond), storetest.Redis(t)
	// These leases do not end only because the machine is busy, so that repeats are caused only by
	// the faults of the test.
	vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t),
		"FANFARE_NOTIFICATION_LEASE=6s", "FANFARE_JOB_LEASE=6s")...)
	f := &fleet{t: t, vars: vars, redis: redis, servers: mustServeMany(t, storetest.Sized(5, 3), vars...)}
	f.servers[0].mustRegister(n)
	pace := time.NewTicker(20 * time.Second / time.Duration(n/20)) // slow enough for all faults
	defer pace.Stop()
	posts := &poster{n: n, batch: 20, pace: pace.C, servers: f.all}
	posts.start()
	rounds := []func(){
		f.kill, f.hangUp, func() { f.freeze(8 * time.Second) }, f.kill, func() { f.cutOff(10 * time.Second) }, f.kill, f.hangUp,
	}
	for round, happens := range rounds {
		posts.awaitAccepted(t, min(n, (round+1)*n/10))
		happens()
	}
	if err := <-posts.done; err != nil {
		t.Fatal(err)
	}
	apns.awaitIDs(n, 2*time.Minute)
	t.Logf("%d events, %d faults, %d repeats, all in the unknown window", n, len(f.faults), posts.checkLedger(t, apns, f.faults...))
}

// The same with events to 10 users, which are sent by the process that accepted them, and to 1,000
// users, which are split into parts.
func TestA15_ChaosWithAudiences(t *testing.T) {
	t.Parallel()
	for audience, n := range map[int]int{10: storetest.Sized(1000, 400), 1000: storetest.Sized(30, 12)} {
		t.Run(strconv.Itoa(audience), func(t *testing.T) {
			t.Parallel()
			apns, redis := startAPNs(t, 10*time.Millisecond), storetest.Redis(t)
			vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t),
				"FANFARE_NOTIFICATION_LEASE=6s", "FANFARE_JOB_LEASE=6s")...)
			f := &fleet{t: t, vars: vars, redis: redis, servers: mustServeMany(t, 3, vars...)}
			f.servers[0].mustRegister(pool)
			pace := time.NewTicker(15 * time.Second / time.Duration(n))
			defer pace.Stop()
			posts := &poster{n: n, audience: audience, pace: pace.C, servers: f.all}
			posts.start()
			for round, happens := range []func(){f.kill, func() { f.freeze(8 * time.Second) }, f.kill, func() { f.cutOff(10 * time.Second) }, f.hangUp, f.kill} {
				posts.awaitAccepted(t, min(n, (round+1)*n/10))
				happens()
			}
			if err := <-posts.done; err != nil {
				t.Fatal(err)
			}
			apns.awaitIDs(n*audience, 2*time.Minute)
			t.Logf("%d events to %d, %d faults, %d repeats, all in the unknown window",
				n, audience, len(f.faults), posts.checkLedger(t, apns, f.faults...))
		})
	}
}

// The same with a random kill -9 and restart every second, as long as there is something to send.
func TestA15_KilledEverySecond(t *testing.T) {
	t.Parallel()
	n := storetest.Sized(10_000, 2000)
	apns, redis := startAPNs(t, 10*time.Millisecond), storetest.Redis(t)
	vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)
	f := &fleet{t: t, vars: vars, redis: redis, servers: mustServeMany(t, storetest.Sized(5, 3), vars...)}
	f.servers[0].mustRegister(n)
	pace := time.NewTicker(40 * time.Millisecond)
	defer pace.Stop()
	posts := &poster{n: n, batch: 20, pace: pace.C, servers: f.all}
	posts.start()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for kills := 0; len(apns.Requests()) < n && kills < 60; kills++ {
		<-every.C
		f.kill()
	}
	if err := <-posts.done; err != nil {
		t.Fatal(err)
	}
	apns.awaitIDs(n, 2*time.Minute)
	t.Logf("%d events, %d kills, %d repeats, all in the unknown window", n, len(f.faults), posts.checkLedger(t, apns, f.faults...))
}
