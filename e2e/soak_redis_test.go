package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// soakRedis is the Redis of a soak: one server, or a Cluster.
type soakRedis interface {
	// reach is a URL for a process, and the proxy in between; nil: there is none.
	reach(t testing.TB) (*storetest.Proxy, string)
	// faults are the faults of this Redis.
	faults(s *soak, r *rand.Rand, victim int, lasts time.Duration) []trouble
}

// keepsAnswered are the options with which the kernel has every answered write, even if Redis is killed.
// Nothing waits for the disk.
var keepsAnswered = []string{"--appendonly", "yes", "--appendfsync", "no"}

// lone is one Redis, which every process reaches through a proxy of its own.
type lone struct{ server *storetest.RedisServer }

func oneRedis(t *testing.T) soakRedis { return lone{storetest.Redis(t, keepsAnswered...)} }

func (l lone) reach(t testing.TB) (*storetest.Proxy, string) {
	return storetest.ProxyTo(t, l.server.URL())
}

func (l lone) faults(s *soak, _ *rand.Rand, victim int, lasts time.Duration) []trouble {
	at := s.slots[victim]
	kill := trouble{"kill -9 of Redis", allSlots, true, lasts, func() { s.redisKills.Add(1); l.server.Kill() }, l.server.Restart}
	cut := trouble{"Redis cut off from one process", []int{victim}, true, 2 * lasts, at.proxy.Cut, at.proxy.Mend}
	disconnect := trouble{"CLIENT KILL", allSlots, true, 0, func() { disconnectAll(s, l.server) }, func() {}}
	refuse := trouble{"Redis answers reads and refuses writes", allSlots, true, 2 * lasts,
		func() { askIfThere(s, l.server, "config", "set", "min-replicas-to-write", "1") },
		func() { askIfThere(s, l.server, "config", "set", "min-replicas-to-write", "0") }}
	return []trouble{
		kill, kill, cut, cut, disconnect, disconnect, refuse, refuse,
		{"Redis a black hole for one process", []int{victim}, true, 2 * lasts,
			func() { at.proxy.Swallow(true) }, func() { at.proxy.Swallow(false); at.proxy.Cut(); at.proxy.Mend() }},
		{"Redis cut off from all", allSlots, true, 2 * lasts, eachProxy(s, (*storetest.Proxy).Cut), eachProxy(s, (*storetest.Proxy).Mend)},
		{"a Redis user without channels", allSlots, false, 2 * lasts,
			func() { askIfThere(s, l.server, "acl", "setuser", "default", "resetchannels") }, func() { askIfThere(s, l.server, "acl", "setuser", "default", "allchannels") }},
	}
}

func eachProxy(s *soak, f func(*storetest.Proxy)) func() {
	return func() {
		for _, at := range s.slots {
			f(at.proxy)
		}
	}
}

// disconnectAll closes every connection to a server, which may be away at that moment.
func disconnectAll(s *soak, server *storetest.RedisServer) {
	for _, kind := range []string{"normal", "pubsub"} {
		_ = server.Client().ClientKillByFilter(s.t.Context(), "TYPE", kind, "SKIPME", "yes").Err()
	}
}

func configure(s *soak, server *storetest.RedisServer, name, value string) {
	ask(s, server, "config", "set", name, value)
}

// ask gives a server a command. Another fault of the same moment may keep the server away for a while.
func ask(s *soak, server *storetest.RedisServer, args ...any) {
	s.eventually(time.Minute, fmt.Sprint("Redis takes ", args), func() bool { return server.Client().Do(s.t.Context(), args...).Err() == nil })
}

// askIfThere is ask for what a server forgets at its end: one that another fault has killed is not asked.
func askIfThere(s *soak, server *storetest.RedisServer, args ...any) {
	s.eventually(time.Minute, fmt.Sprint("Redis takes ", args), func() bool {
		err := server.Client().Do(s.t.Context(), args...).Err()
		return err == nil || errors.Is(err, syscall.ECONNREFUSED)
	})
}

// masters is a Cluster of three masters, which demand their replica for each write. No replica takes over,
// because a fail-over may lose what was answered.
type masters struct {
	cluster *storetest.RedisCluster
	moving  *sync.Mutex // one slot at a time
}

// mastersNumber is the number of masters; node n+3 is the replica of node n.
const mastersNumber = 3

func redisOfMasters(t *testing.T) soakRedis {
	args := slices.Concat(keepsAnswered, []string{"--cluster-replica-no-failover", "yes", "--repl-diskless-sync-delay", "0", "--cluster-require-full-coverage", "no"})
	m := masters{storetest.PrivateCluster(t, 1, args...), &sync.Mutex{}}
	for _, node := range m.cluster.Nodes[:mastersNumber] {
		storetest.Must(t, node.Client().ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	}
	return m
}

func (m masters) reach(testing.TB) (*storetest.Proxy, string) { return nil, m.cluster.URL() }

// slotMoves is a fault that ends by itself, when what hinders it has ended.
const slotMoves = "a slot moves"

func (m masters) faults(s *soak, r *rand.Rand, _ int, lasts time.Duration) []trouble {
	n, to := r.IntN(mastersNumber), 1+r.IntN(mastersNumber-1)
	master, replica := m.cluster.Nodes[n], m.cluster.Nodes[n+mastersNumber]
	target := m.cluster.Nodes[(n+to)%mastersNumber]
	lonely := trouble{"a master misses its replica and refuses writes", allSlots, true, 2 * lasts, replica.Kill, replica.Restart}
	done := make(chan struct{})
	move := trouble{slotMoves, allSlots, true, 0, func() { go func() { defer close(done); m.move(s, master, target) }() }, func() { <-done }}
	return []trouble{
		lonely, lonely, lonely, move, move, move, move,
		{"kill -9 of a master", allSlots, true, lasts, func() { s.redisKills.Add(1); master.Kill() }, func() { m.restart(s, master) }},
		{"CLIENT KILL of a master", allSlots, true, 0, func() { disconnectAll(s, master) }, func() {}},
	}
}

// restart starts a master again, which demands its replica as before.
func (m masters) restart(s *soak, master *storetest.RedisServer) {
	master.Restart()
	configure(s, master, "min-replicas-to-write", "1")
}

// Keys move in steps, with pauses: at most 60 keys a second.
const (
	moveStep  = 3
	movePause = 50 * time.Millisecond
)

// move moves the slot of a random key from one master to another, a few keys at a time and with pauses, so that
// the slot is used while its keys are on both. Whatever fails because of another fault is tried again, for two
// minutes beside the time that the steps and pauses take.
func (m masters) move(s *soak, from, to *storetest.RedisServer) {
	m.moving.Lock()
	defer m.moving.Unlock()
	var slot any
	s.eventually(time.Minute, "a key to move", func() bool {
		key, err := from.Client().RandomKey(s.t.Context()).Result()
		if err == nil {
			slot, err = from.Client().Do(s.t.Context(), "cluster", "keyslot", key).Result()
		}
		return err == nil
	})
	fromID, toID := m.id(s, from), m.id(s, to)
	ask(s, to, "cluster", "setslot", slot, "importing", fromID)
	ask(s, from, "cluster", "setslot", slot, "migrating", toID)
	held := m.keysOf(s, from, slot)
	inSteps := time.Duration(held/moveStep+1) * movePause
	for deadline := time.Now().Add(2*time.Minute + inSteps); m.moveSome(s, from, to, slot); <-time.After(movePause) {
		if time.Now().After(deadline) {
			s.failf("slot %v does not move from %s to %s: %d of its %d keys are left", slot, from.Addr(), to.Addr(), m.keysOf(s, from, slot), held)
			return
		}
	}
	for _, node := range []*storetest.RedisServer{to, from} {
		ask(s, node, "cluster", "setslot", slot, "node", toID)
	}
}

// keysOf is how many keys of a slot a master has, for a message; 0 if it does not answer.
func (m masters) keysOf(s *soak, at *storetest.RedisServer, slot any) int {
	n, _ := at.Client().Do(s.t.Context(), "cluster", "countkeysinslot", slot).Int()
	return n
}

// moveSome moves some keys of a slot, and reports whether more may be there. A key whose move timed out may be on both
// masters: the one that it leaves has answered for it since.
func (m masters) moveSome(s *soak, from, to *storetest.RedisServer, slot any) bool {
	keys, err := from.Client().Do(s.t.Context(), "cluster", "getkeysinslot", slot, moveStep).Slice()
	if err == nil && len(keys) > 0 {
		s.count("keys of moving slots", len(keys))
		_ = from.Client().Do(s.t.Context(), append([]any{"migrate", "127.0.0.1", to.Port(), "", 0, 5000, "replace", "keys"}, keys...)...).Err()
	}
	return err != nil || len(keys) > 0
}

func (m masters) id(s *soak, node *storetest.RedisServer) (id any) {
	s.eventually(time.Minute, "a node's id", func() (ok bool) {
		var err error
		id, err = node.Client().Do(s.t.Context(), "cluster", "myid").Result()
		return err == nil
	})
	return id
}
