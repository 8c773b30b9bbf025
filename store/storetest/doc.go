// Package storetest gives tests real servers: Redis (one node, Sentinel,
// Cluster, embedded), MariaDB and SQLite. Servers belong to the test that asks,
// listen on free loopback ports and end with it; databases are fresh.
package storetest
