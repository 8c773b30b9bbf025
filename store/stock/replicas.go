package stock

import (
	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// sender sends the writes whose success is reported to a client. With MinReplicas it waits until
// that many replicas have them. Without, they share the round trips of all other commands.
func sender(db *redisdb.DB, minReplicas int) redisdb.Sender {
	if minReplicas <= 0 {
		return db.Share
	}
	return (&redisdb.Replicas{DB: db, Need: minReplicas, Mark: waitKey, Wrote: wrote}).Send
}

// wrote reports whether a script changed something, found that an earlier run of it did, or does not know a reservation.
func wrote(cmd redis.Cmder) bool {
	c, ok := cmd.(*redis.Cmd)
	if !ok {
		return true
	}
	switch v := c.Val().(type) {
	case int64:
		return v == answerDone || v == answerReplayed
	case []any:
		status, _ := v[0].(int64)
		return status == answerDone || status == answerReplayed
	}
	return true
}
