package shard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// editPage is how many jobs one command reads.
const editPage = 200

// Listed is a job as a shard has it. A process may have claimed it.
type Listed struct {
	// Job lacks its attachment, and what its report and its counts are.
	Job Job
	// Since is when it was enqueued, or its NotBefore, in ms by Redis' clock.
	Since int64
	// Attached says that it has an attachment.
	Attached bool

	shard            *Shard
	where, eid, text string // as job_rewrite.lua takes them
}

// LetterID is the own id of a dead letter in its shard. A job that died twice has two letters.
func (l *Listed) LetterID() string { return l.eid }

// EachJob calls f with the jobs of the shard: those in streams, delayed, parked, and in line
// behind a conflict key. Jobs that move meanwhile may come twice; one that moves again and again
// may be missed.
func (s *Shard) EachJob(ctx context.Context, f func(*Listed) error) error {
	// Jobs move between the streams and the other places in both directions.
	for _, each := range []func(context.Context, func(*Listed) error) error{s.eachBeside, s.eachInStreams, s.eachBeside} {
		if err := each(ctx, f); err != nil {
			return fmt.Errorf("read the jobs of %s shard %d: %w", s.Name, s.n, err)
		}
	}
	return nil
}

func (s *Shard) eachInStreams(ctx context.Context, f func(*Listed) error) error {
	for letter, stream := range map[string]string{"m": "main", "r": "ready", "f": "few", "a": "alone"} {
		if err := s.eachEntry(ctx, letter, s.prefix+stream, f); err != nil {
			return err
		}
	}
	return nil
}

// eachEntry reads the jobs of a stream, page by page.
func (s *Shard) eachEntry(ctx context.Context, where, stream string, f func(*Listed) error) error {
	for from := "-"; ; {
		cmd := redis.NewXMessageSliceCmd(ctx, "xrange", stream, from, "+", "count", editPage)
		page, err := redisdb.Value(ctx, s.db, redisdb.Read, cmd)
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		for _, m := range page {
			if err := s.found(where, m.ID, redisdb.Text(m.Values["e"]), f); err != nil {
				return err
			}
		}
		if len(page) < editPage {
			return nil
		}
		from = "(" + page[len(page)-1].ID
	}
}

// eachBeside reads the jobs outside of the streams.
func (s *Shard) eachBeside(ctx context.Context, f func(*Listed) error) error {
	later, parked, heads := redis.NewStringSliceCmd(ctx, "zrange", s.prefix+"later", 0, -1), redis.NewStringSliceCmd(ctx, "hkeys", s.ParkedCountsKey()),
		redis.NewStringSliceCmd(ctx, "hkeys", s.prefix+"heads")
	if err := s.db.Do(ctx, redisdb.Read, later, parked, heads); err != nil {
		return err
	}
	for _, slot := range later.Val() {
		if err := s.eachOfList(ctx, "l:"+slot, "lrange", s.prefix+"later:"+slot, f); err != nil {
			return err
		}
	}
	for _, name := range parked.Val() {
		if err := s.eachEntry(ctx, "p:"+name, s.prefix+"parked:"+name, f); err != nil {
			return err
		}
	}
	for _, key := range heads.Val() {
		if err := s.eachOfList(ctx, "k:"+key, "zrange", s.prefix+"wait:"+key, f); err != nil {
			return err
		}
	}
	return nil
}

// eachOfList reads the jobs of a list or a sorted set, page by page.
func (s *Shard) eachOfList(ctx context.Context, where, command, key string, f func(*Listed) error) error {
	for from := 0; ; from += editPage {
		cmd := redis.NewStringSliceCmd(ctx, command, key, from, from+editPage-1)
		page, err := redisdb.Value(ctx, s.db, redisdb.Read, cmd)
		if err != nil {
			return err
		}
		for _, text := range page {
			if err := s.found(where, "", text, f); err != nil {
				return err
			}
		}
		if len(page) < editPage {
			return nil
		}
	}
}

// found calls f with a job. Entries that are no job are left out.
func (s *Shard) found(where, eid, text string, f func(*Listed) error) error {
	if e, err := parseEntry([]byte(text)); err == nil && e.Job.ID != "" {
		return f(s.listed(e, where, eid, text))
	}
	return nil
}

// listed describes a job by its entry: the text, where it is and the id that the entry has there.
func (s *Shard) listed(e *Entry, where, eid, text string) *Listed {
	e.Job.Shard = s.n
	w := &Listed{Job: e.Job, Since: e.since, Attached: e.attachments != "", shard: s, where: where, eid: eid, text: text}
	if w.Since == 0 {
		w.Since, _ = strconv.ParseInt(strings.SplitN(eid, "-", 2)[0], 10, 64) // Redis made the id of the entry
	}
	return w
}

// Rewrite gives the job another payload and lets it run as soon as it may, not before its NotBefore. It reports whether it
// did: a job that a process has claimed, that is no longer where it was, or that waits in line for
// its conflict key, stays as it is.
func (l *Listed) Rewrite(ctx context.Context, payload []byte) (done bool, err error) {
	if strings.HasPrefix(l.where, "k:") {
		return false, nil
	}
	value, err := l.shard.db.Eval(ctx, redisdb.Write, l.shard.Scripts.rewrite, l.shard.Keys(), l.where, l.eid, l.text, payload)
	if err != nil {
		return false, fmt.Errorf("rewrite a job of %s shard %d: %w", l.shard.Name, l.shard.n, err)
	}
	answer, _ := value.([]any)
	l.shard.NoteParked(redisdb.NumberAt(answer, 1))
	return redisdb.NumberAt(answer, 0) == 1, nil
}

// RenameAttached replaces a word in the items of a job's attachment, which are words separated by
// blanks, and returns how many items had it.
func (s *Shard) RenameAttached(ctx context.Context, id, word, other string) (int64, error) {
	return s.rename(ctx, s.Scripts.renameAttached, id, word, other)
}

// RenameMarks replaces the last word of a job's marks, and returns how many marks had it.
func (s *Shard) RenameMarks(ctx context.Context, id, word, other string) (int64, error) {
	marks, err := redisdb.Value(ctx, s.db, redisdb.Read, redis.NewMapStringStringCmd(ctx, "hgetall", s.MarksKey(id)))
	if err != nil {
		return 0, fmt.Errorf("read marks of %s shard %d: %w", s.Name, s.n, err)
	}
	var values []any
	for name, text := range marks {
		if rest, has := strings.CutSuffix(text, " "+word); has {
			values = append(values, name, text, rest+" "+other)
		}
	}
	if len(values) == 0 {
		return 0, nil
	}
	return s.rename(ctx, s.Scripts.renameMarks, append([]any{id, len(values)}, values...)...)
}

func (s *Shard) rename(ctx context.Context, script *redisdb.Script, args ...any) (int64, error) {
	value, err := s.db.Eval(ctx, redisdb.Write, script, s.Keys(), args...)
	if err != nil {
		return 0, fmt.Errorf("rename in %s shard %d: %w", s.Name, s.n, err)
	}
	return redisdb.Number(value), nil
}

// Dead calls f with the dead letters of the shard, oldest first. Their jobs lack the same as those
// that wait.
func (s *Shard) Dead(ctx context.Context, f func(*Listed) error) error {
	for from := "-"; ; {
		cmd := redis.NewXMessageSliceCmd(ctx, "xrange", s.DeadKey(), from, "+", "count", editPage)
		page, err := redisdb.Value(ctx, s.db, redisdb.Read, cmd)
		if err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("read dead letters of %s shard %d: %w", s.Name, s.n, err)
		}
		for _, m := range page {
			get := func(name string) string { return redisdb.Text(m.Values[name]) }
			w := &Listed{Attached: get("a") != "", shard: s, eid: m.ID, Job: Job{
				ID: get("i"), Shard: s.n, Type: get("t"), Key: get("k"), Unique: get("u"), Group: get("g"), Payload: []byte(get("p")),
			}}
			if w.Since, err = strconv.ParseInt(get("s"), 10, 64); err != nil {
				w.Since, _ = strconv.ParseInt(strings.SplitN(m.ID, "-", 2)[0], 10, 64)
			}
			if err := f(w); err != nil {
				return err
			}
		}
		if len(page) < editPage {
			return nil
		}
		from = "(" + page[len(page)-1].ID
	}
}
