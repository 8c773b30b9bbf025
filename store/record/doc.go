// Package record is the system of record: SQL, which is MySQL/MariaDB, PostgreSQL or an embedded SQLite file, in
// plain queries. Its rows do not depend on Redis.
//
//	table          one row is                     key
//	versions       a counter that processes poll  name
//	fact_types     a type of facts that are written  type
//	event_types    the templates of a type, with revision type
//	user_settings  a user's settings version      user_id
//	devices        a registered device, or activity token
//	opt_outs       a refused event type           user_id, type
//	mutes          a muted object, perhaps until  user_id, object
//	contacts       a relationship, with version   owner, contact
//	topic_members  a user who is in a topic       topic, user_id
//	open_topics    a topic that users may join    topic
//	uploads        an upload, also a deleted one  id
//	sales          a sale's settings, versioned   id
//	deleted_sales  an id of a deleted sale        id
//	restocks       a change of stock, kept 24 h   sale, hash of scope and key
//	orders         a reservation that was sold    reservation
//	outbox         work that Redis still owes     id
//	operations     what an operation has done     id
//	schedules      when jobs are enqueued         id
//	broadcasts     an object and its channel      object
//	webhooks       where facts are sent           id
//	api_keys       an API key, hashed             id
//	token_keys     a key that signs user tokens   id
//	idempotency    a POST's answer, kept 24 h     hash of scope and key
//
//	token_revocations  the end of a user's tokens, kept 24 h  user_id
//
// Times are milliseconds since the Unix epoch by the database's clock. Every
// call takes its deadline from its context, Options.Timeout at most. A
// database that is out of reach answers api.CodeUnavailable: nothing happened.
// A commit whose answer was lost answers api.CodeUnknownOutcome. Deadlocks,
// lock waits and serialization failures are retried a bounded number of times.
//
// A transaction takes locks in one order: versions, user_settings by user name, then the rest.
// Every change that also concerns Redis writes rows to the outbox in the same transaction. The
// package to which the kind belongs relays and deletes them.
package record
