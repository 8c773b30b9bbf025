package redisdb

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
)

// Mode says whether a lost answer may hide an effect.
type Mode int

// The modes. A call that mixes both is a Write.
const (
	Read Mode = iota
	Write
)

// outcome is what is known about one command after a try.
type outcome int

const (
	answered outcome = iota // a value, redis.Nil, or an error of the command itself
	unsent                  // it never left, or the server refused to do anything
	unknown                 // it may have run: the answer is lost
	moved                   // another node has the slot
	noScript                // the server does not know the script
	full                    // refused for want of memory
	silent                  // not sent because its master hangs: another try is pointless
)

// refusals are answers by which a server says that it did nothing, because of
// its own state and not because of the command.
var refusals = []struct {
	prefix  string
	outcome outcome
}{
	{"NOSCRIPT", noScript},
	{"MOVED ", moved},
	{"ASK ", moved},
	{"TRYAGAIN", moved},
	{"OOM ", full},
	{"LOADING", unsent},
	{"CLUSTERDOWN", unsent},
	{"READONLY", unsent},
	{"MASTERDOWN", unsent},
	{"MISCONF", unsent},
	{"NOREPLICAS", unsent},
	{"BUSY ", unsent},
	{"NOAUTH", unsent},
	{"DENIED ", unsent},
	{"WRONGPASS", unsent},
	{"UNBLOCKED", unsent},
	{"ERR max number of clients", unsent},
}

// classify tells the outcome by a command's error.
func classify(err error) outcome {
	if err == nil || errors.Is(err, redis.Nil) {
		return answered
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return classifyReply(reply.Error())
	}
	switch {
	case errors.Is(err, errSilent):
		return silent
	case neverLeft(err):
		return unsent
	}
	return unknown
}

// classifyReply also finds a refusal in the error of a script. Before Redis 7.0 that error says where in the script
// it came up: "ERR Error running script (call to f_...): @user_script:88: @user_script: 88: -OOM command not allowed".
func classifyReply(text string) outcome {
	if _, refusal, inScript := strings.Cut(text, "@user_script: "); inScript {
		_, text, _ = strings.Cut(refusal, ": -")
	}
	for _, r := range refusals {
		if strings.HasPrefix(text, r.prefix) {
			return r.outcome
		}
	}
	return answered
}

// notSent marks an error of the search for a node.
type notSent struct{ error }

// Unwrap gives the error as it came.
func (e notSent) Unwrap() error { return e.error }

// Refused reports whether a server answers and rejects the user or the password.
func Refused(err error) bool { return repliedWith(err, "WRONGPASS", "NOAUTH") }

// refusesChanges reports whether a server answers, and refuses changes because of its own state.
func refusesChanges(err error) bool { return repliedWith(err, "READONLY", "MISCONF", "NOREPLICAS") }

// repliedWith reports whether a server's reply is an error with one of the prefixes.
func repliedWith(err error, prefixes ...string) bool {
	var reply redis.Error
	return errors.As(err, &reply) && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(reply.Error(), p) })
}

// neverLeft knows the errors that come before a command is written: dialling,
// waiting for a connection, or finding a node.
func neverLeft(err error) bool {
	var marked notSent
	if errors.As(err, &marked) {
		return true
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return true
	}
	// An error of the context comes from before the write. After the write the
	// connection's deadline ends the command, and that error is "i/o timeout".
	for _, known := range []error{redis.ErrPoolTimeout, redis.ErrPoolExhausted, redis.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return true
		}
	}
	text := err.Error()
	return strings.Contains(text, "all sentinels specified in configuration are unreachable") ||
		strings.Contains(text, "cluster has no nodes")
}

// scriptError is an error that a script caught.
type scriptError string

// ScriptError is the error of a command inside a script that the script caught and returned
// for one of its callers.
func ScriptError(text string) error { return scriptError(text) }

// RedisError marks it as an answer.
func (scriptError) RedisError() {}

func (e scriptError) Error() string { return string(e) }

// Err turns the error of a command that was sent through Client into an error of package api.
// Errors of the command itself (redis.Nil, WRONGTYPE) and *api.Error are returned unchanged.
func (db *DB) Err(err error, m Mode) error {
	var known *api.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return asError(classify(err), m, err)
}

// Away reports whether an error means that Redis, or a master of a Cluster, was out of reach.
func (db *DB) Away(err error) bool {
	code := api.CodeOf(db.Err(err, Read))
	return code == api.CodeUnavailable || code == api.CodeUnknownOutcome
}

// asError turns an outcome into an error. A nil cause means that a command was answered.
func asError(v outcome, m Mode, cause error) error {
	switch {
	case v == answered:
		return cause
	case v == full:
		return overloaded().Because(cause)
	case v == unknown && m == Write:
		return api.Errorf(api.CodeUnknownOutcome, "Redis was lost before it answered").Because(cause)
	case v == noScript:
		return api.Errorf(api.CodeUnavailable, "Redis has begun anew and takes no script yet").Because(cause)
	default:
		return api.Errorf(api.CodeUnavailable, "Redis is out of reach").Because(cause)
	}
}

// retryAfterFull is how long a caller should wait while memory is nearly full.
const retryAfterFull = 5 * time.Second

// NoMemory is the error of a call that a Redis without free memory has refused.
func NoMemory() error { return overloaded() }

func overloaded() *api.Error {
	e := api.Errorf(api.CodeOverloaded, "Redis' memory is nearly full")
	e.RetryAfter = retryAfterFull
	return e
}
