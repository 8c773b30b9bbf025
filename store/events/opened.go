package events

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
)

// An event type may count who opens its notifications. Of its events each user who gets a notification is noted before that is
// sent, in the slot of the event, by a digest: so a call of anybody else is refused, and a user is counted once. Other events
// cost nothing.

const (
	// openedDigest is how many bytes of a user's digest are noted.
	openedDigest = 8
	// openedBuckets is over how many hashes the users of a very large event are spread. They stay in their compact encoding, with
	// some 12 bytes for a user, up to 500,000 users.
	openedBuckets = 1024
	// openedFew is the number of hashes that are filled before those. Their names are the numbers below it.
	openedFew = 16
	// opensMark follows the type in the report of an event that counts. No type has this character.
	opensMark = "+"
)

// Statuses of opened_count.lua.
const (
	openedUnknown     = 0
	openedNotCounted  = 1
	openedNoRecipient = 2
	openedCounted     = 3
	openedBefore      = 4
)

// Opening is what a user did with a notification.
type Opening struct {
	name string // of the count in the report
	bit  int    // in what is noted of the user
	fact string // the type of the fact
}

// String is the name of the count.
func (o Opening) String() string { return o.name }

// The two things that a user may do with a notification. Each is counted by itself.
var (
	Opened    = Opening{"opened", 1, api.FactNotificationOpened}
	Dismissed = Opening{"dismissed", 2, api.FactNotificationDismissed}
)

// openedUser is a user as an event notes it: the digest, and the bucket among a very large audience. That modulo openedFew is the
// bucket among a smaller one. Those of two events have nothing in common.
func openedUser(event, user string) (digest, bucket string) {
	sum := sha256.Sum256([]byte(event + " " + user))
	return string(sum[:openedDigest]), strconv.Itoa(openedFew + int(binary.BigEndian.Uint16(sum[openedDigest:]))%openedBuckets)
}

// fewOf is the bucket among openedFew of a user with a bucket.
func fewOf(bucket string) string {
	n, _ := strconv.Atoi(bucket) // it always is a number
	return strconv.Itoa(n % openedFew)
}

// Recipients are users who get a notification of an event that counts who opens it.
type Recipients struct {
	Event string
	// Part says that they are part of a large audience, and not noted while Redis is nearly full.
	Part  bool
	Users []string
}

// NoteRecipients notes the recipients of events, in one round trip, and returns an error for each of them. They are kept for at
// least a time, which should outlast the events' reports. Noting them again does no harm. Parts of large audiences are not noted
// while Redis' memory is nearly full: their error is overloaded.
func (s *Store) NoteRecipients(ctx context.Context, keep time.Duration, all ...Recipients) []error {
	var cmds []redis.Cmder
	errs, of, full := make([]error, len(all)), []int{}, s.o.DB.Overloaded()
	for i, r := range all {
		if r.Part && full != nil {
			errs[i] = full
			continue
		}
		args := make([]any, 0, 2+2*len(r.Users))
		args = append(args, keep.Milliseconds(), openedFew)
		for _, user := range r.Users {
			digest, bucket := openedUser(r.Event, user)
			args = append(args, bucket, digest)
		}
		of, cmds = append(of, i), append(cmds, s.noteRecipients.Cmd(ctx, noteKeys(s.o.Queue, s.o.Queue.LaneOf(r.Event), r.Event), args...))
	}
	if len(cmds) == 0 {
		return errs
	}
	_ = s.o.DB.Pipeline(ctx, redisdb.Write, cmds...) // each command has its own outcome
	for n, cmd := range cmds {
		errs[of[n]] = s.o.DB.Err(cmd.Err(), redisdb.Write)
	}
	return errs
}

// openedFact is what is told of a notification that was opened or dismissed; the script adds the type of the event.
type openedFact struct {
	Event  string `json:"event"`
	User   string `json:"user"`
	Device string `json:"device,omitempty"` // as in dead letters: the begin of its token
}

// CountOpening counts that a user opened or dismissed a notification of an event, once, and tells it in the same step. A repeat
// changes nothing. The error is not_found if the event is unknown, its report is no longer kept, or the user got no notification
// of it, not_counted if its type does not count, and overloaded while Redis' memory is nearly full.
func (s *Store) CountOpening(ctx context.Context, id string, what Opening, r *api.OpenedRequest) error {
	shard, ok := queue.ParseID(id)
	if !ok || shard >= s.o.Queue.Shards() {
		return notFound(id)
	}
	if err := s.o.DB.Overloaded(); err != nil {
		return err
	}
	fact, data := "", ""
	if s.o.Tells(what.fact) {
		text, _ := json.Marshal(openedFact{id, r.User, api.ShortToken(r.Token)}) // texts always marshal
		fact, data = what.fact, string(text)
	}
	digest, bucket := openedUser(id, r.User)
	keys, field := countKeys(s.o.Queue, shard, id)
	status, err := s.o.DB.Eval(ctx, redisdb.Write, s.countOpened, keys, id, field, openedFew, bucket, digest, what.name, what.bit, fact, data)
	if err != nil {
		return fmt.Errorf("count a notification of event %s as %s: %w", id, what.name, err)
	}
	switch redisdb.Number(status) {
	case openedUnknown:
		return notFound(id)
	case openedNotCounted:
		return api.Errorf(api.CodeNotCounted, "the type of event %s does not count who opens its notifications: PUT /v1/event-types/{type} with \"opened\": true", id)
	case openedNoRecipient:
		return api.Errorf(api.CodeNotFound, "the user got no notification of event %s", id)
	case openedCounted:
		s.o.OnOpened(what.name)
	case openedBefore:
	default:
		return fmt.Errorf("count a notification of event %s as %s: answered %v", id, what.name, status)
	}
	return nil
}

// openings are how many users opened and dismissed the notifications of an event.
type openings struct {
	opened, dismissed int64
	kept              bool // somebody was noted who got one, and that is still known
}

// openings reads them; nil if the type of the event does not count.
func (s *Store) openings(ctx context.Context, w *whole) (*openings, error) {
	if !w.event.opens {
		return nil, nil
	}
	shard, _ := queue.ParseID(w.id)
	values, err := redisdb.Value(ctx, s.o.DB, redisdb.Read, redis.NewSliceCmd(ctx, "hmget", openedKey(s.o.Queue, shard, w.id), Opened.name, Dismissed.name))
	if err != nil {
		return nil, fmt.Errorf("read who opened event %s: %w", w.id, err)
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(redisdb.TextAt(values, i), 10, 64)
		return n
	}
	return &openings{number(0), number(1), redisdb.TextAt(values, 0) != ""}, nil
}

// EraseRecipients forgets, among keys of Redis, that a user got notifications of events which were accepted up to a time, and
// returns how many notes of it there were. What was counted stays counted.
func (s *Store) EraseRecipients(ctx context.Context, user string, since time.Time, keys []string) (erased int64, err error) {
	var cmds []redis.Cmder
	for _, key := range keys {
		_, of, is := strings.Cut(key, "}:"+openedName)
		if !is {
			continue
		}
		event, bucket, _ := strings.Cut(of, ":")
		digest, own := openedUser(event, user)
		if queue.MadeBefore(event, since) && slices.Contains([]string{"", fewOf(own), own}, bucket) {
			cmds = append(cmds, redis.NewIntCmd(ctx, "hdel", key, digest))
		}
	}
	if len(cmds) == 0 {
		return 0, nil
	}
	if err := s.o.DB.Pipeline(ctx, redisdb.Write, cmds...); err != nil {
		return 0, fmt.Errorf("forget a recipient of events: %w", err)
	}
	for _, cmd := range cmds {
		erased += cmd.(*redis.IntCmd).Val()
	}
	return erased, redisdb.FirstError(cmds)
}
