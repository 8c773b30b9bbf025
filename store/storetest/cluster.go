package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// masters is the number of masters of a test cluster, and lastSlot the highest
// of Redis Cluster's slots.
const (
	masters  = 3
	lastSlot = 16383
)

// RedisCluster is a Redis Cluster of three masters.
type RedisCluster struct {
	Nodes []*RedisServer // the masters first; replica n follows master n
	addrs []string
}

// sharedCluster is the cluster of this test binary: forming one takes seconds.
var sharedCluster struct {
	sync.Mutex
	cluster *RedisCluster
}

// Cluster is the cluster that all tests of this binary share. It has no replicas. Tests must not
// kill its nodes; they use a PrivateCluster for that.
func Cluster(t testing.TB) *RedisCluster {
	t.Helper()
	SkipShort(t, "a Redis Cluster")
	sharedCluster.Lock()
	defer sharedCluster.Unlock()
	if sharedCluster.cluster == nil {
		sharedCluster.cluster = mustStartShared(t)
	}
	return sharedCluster.cluster
}

// aloneOnCluster is held by the test that uses the shared cluster exclusively.
var aloneOnCluster sync.Mutex

// emptyCluster is the shared cluster without any keys, for exclusive use by this test.
func emptyCluster(t testing.TB) *RedisCluster {
	t.Helper()
	c := Cluster(t)
	aloneOnCluster.Lock()
	t.Cleanup(aloneOnCluster.Unlock)
	for _, addr := range c.addrs {
		client := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatalf("empty the cluster: %v", err)
		}
		_ = client.Close()
	}
	return c
}

// mustStartShared starts nodes that live as long as the test binary.
func mustStartShared(t testing.TB) *RedisCluster {
	t.Helper()
	c := &RedisCluster{}
	for range masters {
		dir := mustTempDir(t, "fanfare-cluster-")
		node := &RedisServer{t: t, port: FreePort(t), dir: dir, args: clusterArgs(FreePort(t))}
		if err := launchForBinary(dir, "KILL", mustFind(t, "redis-server"), node.arguments()...); err != nil {
			t.Fatal(err)
		}
		node.exited = make(chan struct{})
		if err := node.awaitPong(); err != nil {
			t.Fatal(err)
		}
		c.addrs = append(c.addrs, node.Addr())
	}
	c.mustForm(t, 0)
	return c
}

// PrivateCluster starts three masters, each with the given number of replicas, for one test, which
// may kill its nodes.
func PrivateCluster(t testing.TB, replicas int, args ...string) *RedisCluster {
	t.Helper()
	SkipShort(t, "a Redis Cluster")
	c := &RedisCluster{}
	for range masters * (1 + replicas) {
		node := Redis(t, append(clusterArgs(FreePort(t)), args...)...)
		c.Nodes = append(c.Nodes, node)
		c.addrs = append(c.addrs, node.Addr())
	}
	c.mustForm(t, replicas)
	return c
}

// ProxiedCluster is a PrivateCluster whose clients reach every master through a proxy: the nodes
// announce the ports of the proxies as their own.
func ProxiedCluster(t testing.TB) ([]*Proxy, string) {
	t.Helper()
	c := PrivateCluster(t, 0)
	proxies, addrs := make([]*Proxy, len(c.Nodes)), make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		proxies[i] = NewProxy(t, node.Addr())
		addrs[i] = proxies[i].Addr()
		_, port, _ := strings.Cut(addrs[i], ":")
		Must(t, node.Client().ConfigSet(t.Context(), "cluster-announce-port", port).Err())
	}
	Eventually(t, startTimeout, "all nodes announce the proxies", func() bool {
		return !slices.ContainsFunc(c.Nodes, func(node *RedisServer) bool {
			slots, err := node.Client().ClusterSlots(t.Context()).Result()
			return err != nil || slices.ContainsFunc(slots, func(slot redis.ClusterSlot) bool { return !slices.Contains(addrs, slot.Nodes[0].Addr) })
		})
	})
	return proxies, "redis+cluster://" + strings.Join(addrs, ",")
}

func clusterArgs(busPort int) []string {
	return []string{
		"--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(busPort), "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0",
	}
}

// URL is the URL for redisdb.Options.
func (c *RedisCluster) URL() string { return "redis+cluster://" + strings.Join(c.addrs, ",") }

// mustForm joins the nodes into one cluster and waits until all agree on it.
func (c *RedisCluster) mustForm(t testing.TB, replicas int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	clients := make([]*redis.Client, len(c.addrs))
	for i, addr := range c.addrs {
		clients[i] = redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
		defer clients[i].Close()
	}
	for i, client := range clients {
		if err := join(ctx, client, i, c); err != nil {
			t.Fatalf("form a cluster: %v", err)
		}
	}
	Eventually(t, startTimeout, "all nodes know each other", func() bool { return know(ctx, clients) })
	for i := masters; i < len(clients); i++ {
		mustFollow(ctx, t, clients[i], clients[i%masters])
	}
	Eventually(t, startTimeout, "the cluster is up", func() bool { return agree(ctx, clients, replicas) })
}

// join gives node i its slots and introduces it to the others.
func join(ctx context.Context, client *redis.Client, i int, c *RedisCluster) error {
	if i < masters {
		from, to := i*(lastSlot+1)/masters, (i+1)*(lastSlot+1)/masters-1
		if err := client.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
			return err
		}
	}
	if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
		return err
	}
	for _, addr := range c.addrs[:i] {
		host, port, _ := strings.Cut(addr, ":")
		bus, err := busPort(ctx, addr)
		if err != nil {
			return err
		}
		if err := client.Do(ctx, "CLUSTER", "MEET", host, port, bus).Err(); err != nil {
			return err
		}
	}
	return nil
}

func busPort(ctx context.Context, addr string) (string, error) {
	client := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
	defer client.Close()
	got, err := client.ConfigGet(ctx, "cluster-port").Result()
	return got["cluster-port"], err
}

func know(ctx context.Context, clients []*redis.Client) bool {
	for _, client := range clients {
		text, err := client.ClusterNodes(ctx).Result()
		if err != nil || strings.Count(text, "\n") != len(clients) || strings.Contains(text, "handshake") {
			return false
		}
	}
	return true
}

func mustFollow(ctx context.Context, t testing.TB, replica, master *redis.Client) {
	t.Helper()
	id, err := master.Do(ctx, "CLUSTER", "MYID").Text()
	if err == nil {
		err = replica.ClusterReplicate(ctx, id).Err()
	}
	if err != nil {
		t.Fatalf("follow a master: %v", err)
	}
}

// agree reports whether every node sees all slots served by masters whose replicas are linked.
func agree(ctx context.Context, clients []*redis.Client, replicas int) bool {
	for i, client := range clients {
		info, err := client.ClusterInfo(ctx).Result()
		if err != nil || !strings.Contains(info, "cluster_state:ok") {
			return false
		}
		slots, err := client.ClusterSlots(ctx).Result()
		if err != nil || len(slots) != masters {
			return false
		}
		for _, slot := range slots {
			if len(slot.Nodes) != 1+replicas {
				return false
			}
		}
		if i >= masters && !linked(ctx, client) {
			return false
		}
	}
	return true
}

// linked reports whether a replica follows its master.
func linked(ctx context.Context, replica redis.Cmdable) bool {
	text, err := replica.Info(ctx, "replication").Result()
	return err == nil && strings.Contains(text, "master_link_status:up")
}

// MasterOf is the node that serves a key now; nil in the shared cluster.
func (c *RedisCluster) MasterOf(t testing.TB, key string) *RedisServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.addrs})
	defer client.Close()
	master, err := client.MasterForKey(ctx, key)
	if err != nil {
		t.Fatalf("find the master of %s: %v", key, err)
	}
	for _, node := range c.Nodes {
		if node.Addr() == master.Options().Addr {
			return node
		}
	}
	return nil
}
