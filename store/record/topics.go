package record

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// JoinTopic makes a user a member of a topic; it is no error if the user is one. With onlyOpen the
// answer is api.CodeForbidden unless the topic is open, whether anybody is in it or not.
func (db *DB) JoinTopic(ctx context.Context, user, topic string, onlyOpen bool) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		if err := db.lockUsers(ctx, tx, []string{user}); err != nil {
			return err
		}
		if onlyOpen {
			if err := db.wantOpen(ctx, tx, topic); err != nil {
				return err
			}
		}
		full, err := db.addMembers(ctx, tx, topic, []string{user})
		if len(full) > 0 {
			return api.Invalid("topic", "max", "would be one more than the %d topics a user may be in", api.MaxTopics)
		}
		return err
	})
}

// LeaveTopic ends a user's membership, also one that is not there.
func (db *DB) LeaveTopic(ctx context.Context, user, topic string) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		return removeMembers(ctx, tx, topic, []string{user})
	})
}

// ChangeTopic makes users members of a topic and ends the memberships of others, all or none, once
// per idempotency key. It refuses users who are in api.MaxTopics topics already.
func (db *DB) ChangeTopic(ctx context.Context, topic string, r *api.TopicUsersRequest, once api.Idempotency) (replayed bool, err error) {
	var done struct{}
	return db.once(ctx, once, &done, func(ctx context.Context, tx *sqlx.Tx) error {
		if err := db.lockUsers(ctx, tx, r.Add); err != nil {
			return err
		}
		full, err := db.addMembers(ctx, tx, topic, r.Add)
		if err == nil {
			err = tooManyTopics(r.Add, full)
		}
		if err != nil {
			return err
		}
		return removeMembers(ctx, tx, topic, r.Remove)
	})
}

// tooManyTopics names the users who cannot be in one more topic.
func tooManyTopics(added, full []string) error {
	var fields []api.FieldError
	for i, user := range added {
		if slices.Contains(full, user) {
			fields = append(fields, api.FieldError{Field: fmt.Sprintf("add[%d]", i), Rule: "max",
				Message: fmt.Sprintf("would be in more than the %d topics a user may be in", api.MaxTopics)})
		}
	}
	return api.InvalidFields(fields)
}

// addMembers makes members of the users who are none yet. The users are locked. It returns those
// who are in api.MaxTopics topics; if there are any, the transaction must not be committed.
func (db *DB) addMembers(ctx context.Context, tx *sqlx.Tx, topic string, users []string) (full []string, err error) {
	for part := range slices.Chunk(users, chunk) {
		var members, some []string
		if err := selectIn(ctx, tx, &members, "SELECT user_id FROM topic_members WHERE topic = ? AND user_id IN (?)", topic, part); err != nil {
			return nil, err
		}
		missing := slices.DeleteFunc(slices.Clone(part), func(user string) bool { return slices.Contains(members, user) })
		if len(missing) == 0 {
			continue
		}
		err := selectIn(ctx, tx, &some, "SELECT user_id FROM topic_members WHERE user_id IN (?) GROUP BY user_id HAVING COUNT(*) >= ?", missing, api.MaxTopics)
		if err != nil {
			return nil, err
		}
		if full = append(full, some...); len(full) > 0 {
			continue
		}
		args := make([]any, 0, 2*len(missing))
		for _, user := range missing {
			args = append(args, topic, user)
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO topic_members (topic, user_id, joined_at) VALUES "+rows("(?, ?, "+db.d.now+")", len(missing)), args...)
		if err != nil {
			return nil, err
		}
	}
	return full, nil
}

func removeMembers(ctx context.Context, tx *sqlx.Tx, topic string, users []string) error {
	for part := range slices.Chunk(users, chunk) {
		if _, err := execIn(ctx, tx, "DELETE FROM topic_members WHERE topic = ? AND user_id IN (?)", topic, part); err != nil {
			return err
		}
	}
	return nil
}

// wantOpen refuses a topic that is not open. The lock makes a call that closes the topic wait, so
// that no user joins by themselves after it was answered.
func (db *DB) wantOpen(ctx context.Context, tx *sqlx.Tx, topic string) error {
	var open []string
	err := tx.SelectContext(ctx, &open, "SELECT topic FROM open_topics WHERE topic = ?"+db.d.forShare, topic)
	if err == nil && len(open) == 0 {
		err = api.Errorf(api.CodeForbidden, "users may join this topic only through the backend")
	}
	return err
}

// SetTopicOpen says whether users may join a topic by themselves.
func (db *DB) SetTopicOpen(ctx context.Context, topic string, open bool) error {
	query := "DELETE FROM open_topics WHERE topic = ?"
	if open {
		verb, end := db.d.insertNew("topic")
		query = verb + " INTO open_topics (topic, created_at) VALUES (?, " + db.d.now + ")" + end
	}
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, query, topic)
		return err
	})
}

// TopicOpen reports whether users may join a topic by themselves.
func (db *DB) TopicOpen(ctx context.Context, topic string) (open bool, err error) {
	err = db.get(ctx, &open, "SELECT COUNT(*) FROM open_topics WHERE topic = ?", topic)
	return open, err
}

// Topics lists the topics that have members or are open by name, at most limit of them, beginning after a name. It counts
// up to api.MaxTopicCount members of each, so that a page costs the same however many there are. It makes two round trips
// for 500 topics: their names, and what is said of each.
func (db *DB) Topics(ctx context.Context, after string, limit int) ([]api.ListedTopic, error) {
	var names []string
	// Each name is looked up after the one before: with GROUP BY all members would be walked through.
	err := db.list(ctx, &names, "WITH RECURSIVE m (topic, n) AS (SELECT MIN(topic), 1 FROM topic_members WHERE topic > ? "+
		"UNION ALL SELECT (SELECT MIN(topic) FROM topic_members WHERE topic > m.topic), n + 1 FROM m WHERE m.topic IS NOT NULL AND n < ?) "+
		"SELECT topic FROM m WHERE topic IS NOT NULL UNION SELECT * FROM (SELECT topic FROM open_topics WHERE topic > ? ORDER BY topic LIMIT ?) o ORDER BY topic LIMIT ?",
		after, limit, after, limit, limit)
	out := make([]api.ListedTopic, 0, len(names))
	for part := range slices.Chunk(names, chunk) {
		if err == nil {
			out, err = db.countTopics(ctx, part, out)
		}
	}
	return out, err
}

// countTopics appends what is said of topics, in the order of the names. It counts one member more than api.MaxTopicCount
// at most.
func (db *DB) countTopics(ctx context.Context, topics []string, out []api.ListedTopic) ([]api.ListedTopic, error) {
	const one = "SELECT ? AS topic, (SELECT COUNT(*) FROM open_topics WHERE topic = ?) AS is_open, COUNT(*) AS members " +
		"FROM (SELECT 1 FROM topic_members WHERE topic = ? LIMIT ?) m"
	args := make([]any, 0, 4*len(topics))
	for _, topic := range topics {
		args = append(args, topic, topic, topic, api.MaxTopicCount+1)
	}
	var found []topicCount
	err := db.list(ctx, &found, strings.Repeat(one+" UNION ALL ", len(topics)-1)+one, args...)
	said := make(map[string]topicCount, len(found))
	for _, t := range found {
		said[t.Topic] = t
	}
	for _, topic := range topics {
		t := said[topic]
		members := min(t.Members, api.MaxTopicCount)
		out = append(out, api.ListedTopic{Topic: topic, Open: t.Open, Members: members, More: t.Members > members})
	}
	return out, err
}

type topicCount struct {
	Topic   string `db:"topic"`
	Open    bool   `db:"is_open"`
	Members int64  `db:"members"`
}

// membership is one side of a row of topic_members.
type membership struct {
	Name     string `db:"name"`
	JoinedAt int64  `db:"joined_at"`
}

// UserTopics lists the topics that a user is in by name, at most limit of them, beginning after a
// name ("" for the first page).
func (db *DB) UserTopics(ctx context.Context, user, after string, limit int) ([]api.UserTopic, error) {
	var found []membership
	err := db.list(ctx, &found, "SELECT topic AS name, joined_at FROM topic_members WHERE user_id = ? AND topic > ? ORDER BY topic LIMIT ?", user, after, limit)
	out := make([]api.UserTopic, len(found))
	for i, m := range found {
		out[i] = api.UserTopic{Topic: m.Name, JoinedAt: api.AtMillis(m.JoinedAt)}
	}
	return out, err
}

// TopicMembers lists the members of a topic by name, at most limit of them, beginning after a name.
// The cost of a page does not grow with its position.
func (db *DB) TopicMembers(ctx context.Context, topic, after string, limit int) ([]api.TopicUser, error) {
	var found []membership
	err := db.list(ctx, &found, "SELECT user_id AS name, joined_at FROM topic_members"+db.d.whereTopicIs(), topic, topic, after, limit)
	out := make([]api.TopicUser, len(found))
	for i, m := range found {
		out[i] = api.TopicUser{User: m.Name, JoinedAt: api.AtMillis(m.JoinedAt)}
	}
	return out, err
}

// TopicUsers names the users that TopicMembers lists.
func (db *DB) TopicUsers(ctx context.Context, topic, after string, limit int) (users []string, err error) {
	err = db.list(ctx, &users, "SELECT user_id FROM topic_members"+db.d.whereTopicIs(), topic, topic, after, limit)
	return users, err
}

// whereTopicIs selects a page of the members of a topic (named twice) by name.
func (d dialect) whereTopicIs() string {
	return " WHERE " + d.is("topic") + " AND user_id > ? ORDER BY topic, user_id LIMIT ?"
}

// UsersWithDevice names the users with a device that is sent to, by name, at most limit of them, beginning after a name;
// with an object, the users with an activity of it, which may have ended some minutes ago. It reads the index
// devices_by_object alone: neither a page's position nor the number of dropped devices changes its cost.
func (db *DB) UsersWithDevice(ctx context.Context, object, after string, limit int) (users []string, err error) {
	active, suspect := string(api.DeviceActive), string(api.DeviceSuspect)
	err = db.list(ctx, &users, db.d.usersWithDevice(), object, object, active, after, limit, object, object, suspect, after, limit, limit)
	return users, err
}

// usersWithDevice reads a page of the users with devices of two states, in one statement, so that
// a device that changes from one to the other is not missed.
func (d dialect) usersWithDevice() string {
	one := "SELECT * FROM (" + d.usersWithState() + ")"
	return one + " a UNION " + one + " b ORDER BY user_id LIMIT ?"
}

// usersWithState selects a page of the users with a device of an object (named twice) and a state, by name.
func (d dialect) usersWithState() string {
	return "SELECT user_id FROM devices WHERE " + d.is("object") + " AND state = ? AND user_id > ? GROUP BY object, state, user_id ORDER BY object, state, user_id LIMIT ?"
}
