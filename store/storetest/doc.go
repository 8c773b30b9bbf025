// Package storetest starts real servers for tests: Redis (one node, Sentinel, Cluster, embedded),
// MariaDB, PostgreSQL, PgBouncer and SQLite. A server belongs to the test that starts it, listens on
// a free loopback port and ends with the test. Databases are fresh.
package storetest
