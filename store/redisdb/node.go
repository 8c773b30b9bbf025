package redisdb

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Conn sends commands to Redis over one connection or over a pool of them.
//
// Conn, Client and Subscription stand for types of the client library: *redis.Client, *redis.ClusterClient,
// redis.UniversalClient, *redis.Conn, *redis.PubSub. Each package that sees one of those, or their options, costs 1.2 s
// of processor time and 9 MB of output whenever it is compiled, and a run of all tests compiles it several times: the
// compiler makes the 1,250 methods of a generic type in them anew for each package. A package sees the types that it
// names, those in fields and in methods' signatures of the types that it uses, even if they are unexported, and those in
// the bodies of functions that the compiler inlines into it. So in this package only signatures of unexported
// functions, and bodies of functions that are not inlined, name these types. The library's other types cost nothing. A
// test in package app checks it.
type Conn interface {
	redis.Cmdable
	Process(ctx context.Context, cmd redis.Cmder) error
	Close() error
}

// Client is a pool of connections: a *redis.ClusterClient for a whole Cluster, else a *redis.Client.
type Client interface {
	Conn
	Do(ctx context.Context, args ...any) *redis.Cmd
	AddHook(hook redis.Hook)
	PoolStats() *redis.PoolStats
}

// Subscription is a connection of pub/sub, a *redis.PubSub. See Conn for why it is an interface.
type Subscription interface {
	Subscribe(ctx context.Context, channels ...string) error
	Unsubscribe(ctx context.Context, channels ...string) error
	SSubscribe(ctx context.Context, channels ...string) error
	SUnsubscribe(ctx context.Context, channels ...string) error
	// Ping asks for an answer, and makes the connection if there is none.
	Ping(ctx context.Context, payload ...string) error
	// Receive waits for the next *redis.Message, *redis.Subscription or *redis.Pong.
	Receive(ctx context.Context) (any, error)
	// ReceiveMessage passes over all but messages.
	ReceiveMessage(ctx context.Context) (*redis.Message, error)
	Close() error
}

// Subscribe makes a subscription to channels, or to none yet. It has a connection of its own, of which failures show in
// its methods.
//
//go:noinline
func Subscribe(ctx context.Context, c Client, channels ...string) Subscription {
	return c.(redis.UniversalClient).Subscribe(ctx, channels...)
}

// SubscribePattern subscribes to the channels that match a pattern, and makes the connection again whenever it is lost.
// A *redis.Subscription among the events tells of that. At most size events wait to be taken.
//
//go:noinline
func SubscribePattern(ctx context.Context, c Client, pattern string, size int) (events <-chan any, end func() error) {
	sub := c.(redis.UniversalClient).PSubscribe(ctx, pattern)
	return sub.ChannelWithSubscriptions(redis.WithChannelSize(size)), sub.Close
}

// OwnConn takes a connection of a node's pool, which no other caller uses until Close.
//
//go:noinline
func OwnConn(node Client) Conn { return node.(*redis.Client).Conn() }

// addrOf is the address of a node.
//
//go:noinline
func addrOf(node Client) string { return node.(*redis.Client).Options().Addr }

// masterOf is the client of the master that has a key.
func masterOf(ctx context.Context, client Client, key string) (Client, error) {
	switch client := client.(type) {
	case *redis.Client:
		return client, nil
	case *redis.ClusterClient:
		node, err := client.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		return node, nil
	}
	return nil, fmt.Errorf("find the master of a key: client of type %T", client)
}

// forEachMaster calls f for each master that the client of a Cluster knows, at the same time.
//
//go:noinline
func forEachMaster(ctx context.Context, cluster Client, f func(context.Context, Client) error) error {
	return cluster.(*redis.ClusterClient).ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return f(ctx, c) })
}

// ReloadMap has the client for blocking reads and pub/sub read the map of a Cluster's slots soon.
func (db *DB) ReloadMap(ctx context.Context) {
	if db.cluster != nil {
		reloadMap(ctx, db.blocking)
	}
}

// reloadMap has the client of a Cluster read the map of slots soon.
//
//go:noinline
func reloadMap(ctx context.Context, cluster Client) {
	cluster.(*redis.ClusterClient).ReloadState(ctx)
}
