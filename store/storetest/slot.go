package storetest

import "testing"

// SlotMove is a slot of a Cluster that moves to another master, a key at a time.
type SlotMove struct {
	t        testing.TB
	cluster  *RedisCluster
	from, to *RedisServer
	slot     any
	toID     any
}

// BeginMove begins to move the slot of a key.
func BeginMove(t testing.TB, cluster *RedisCluster, key string) *SlotMove {
	t.Helper()
	m := &SlotMove{t: t, cluster: cluster, from: cluster.MasterOf(t, key), to: cluster.Nodes[0]}
	if m.to == m.from {
		m.to = cluster.Nodes[1]
	}
	m.slot, m.toID = m.do(m.from, "cluster", "keyslot", key), m.do(m.to, "cluster", "myid")
	m.do(m.to, "cluster", "setslot", m.slot, "importing", m.do(m.from, "cluster", "myid"))
	m.do(m.from, "cluster", "setslot", m.slot, "migrating", m.toID)
	return m
}

func (m *SlotMove) do(node *RedisServer, args ...any) any {
	m.t.Helper()
	got, err := node.Client().Do(m.t.Context(), args...).Result()
	Must(m.t, err)
	return got
}

// Move moves keys.
func (m *SlotMove) Move(keys ...string) {
	m.t.Helper()
	for _, key := range keys {
		m.do(m.from, "migrate", "127.0.0.1", m.to.Port(), key, 0, 5000)
	}
}

// Rest lists the keys that have not moved.
func (m *SlotMove) Rest() (keys []string) {
	m.t.Helper()
	for _, key := range m.do(m.from, "cluster", "getkeysinslot", m.slot, 1000).([]any) {
		keys = append(keys, key.(string))
	}
	return keys
}

// Finish moves the rest, and tells every node whose slot it is.
func (m *SlotMove) Finish() {
	m.t.Helper()
	m.Move(m.Rest()...)
	for _, node := range append([]*RedisServer{m.to, m.from}, m.cluster.Nodes...) {
		m.do(node, "cluster", "setslot", m.slot, "node", m.toID)
	}
}
