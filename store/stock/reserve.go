package stock

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// ReserveStock is a reservation asked for, checked already.
type ReserveStock struct {
	Sale    string
	Request *api.ReservationRequest
	Once    api.Idempotency
}

// Reserved is what a reservation answers.
type Reserved struct {
	Reservation api.Reservation
	// Replayed: this is the first answer to the same idempotency key.
	Replayed bool
	// Order is what waits for the record, when the sale sells at once.
	Order *Order
	// SoldOut stands beside the error sold_out.
	SoldOut *SoldOut
}

// SoldOut is what is known when there is not enough.
type SoldOut struct {
	// Available is what there is of each sku asked for.
	Available map[string]int64
	// NextDue is how long until the next hold ends; 0: there is none.
	NextDue time.Duration
	// Version is the sale's.
	Version int64
}

// The answers of stock_reserve.lua beside the common ones.
const (
	reserveElsewhere  = 7
	reserveUnknownSKU = 8
	reserveNotStarted = 9
	reserveOver       = 10
	reserveLimit      = 11
	reserveShort      = 12
)

// reserveAnswer is what lua/stock_reserve.lua tells; what is set depends on the
// status.
type reserveAnswer struct {
	status, version int64
	expires         string        // done: the end of the hold in ms, "0": sold
	soldAt          int64         // done: ms
	first           string        // replayed: id and end of the hold
	line            int64         // unknown sku: which line, from 1
	startsIn        time.Duration // not started
	idle            bool          // over: because nobody bought for so long
	remaining       int64         // limit: units that the user may still have
	nextDue         int64         // short: ms to the next due hold, -1: none
	available       []int64       // short: of each line
}

// readReserve reads the answer in the order of the script's RETURNS.
func (l *Live) readReserve(cmd *redis.Cmd) (reserveAnswer, error) {
	v, err := reply(l.scripts.reserve, cmd)
	if err != nil {
		return reserveAnswer{}, err
	}
	a := reserveAnswer{status: redisdb.NumberAt(v, 0), version: integer(v, 1)}
	switch a.status {
	case answerDone:
		a.expires, a.soldAt = redisdb.TextAt(v, 2), redisdb.NumberAt(v, 3)
	case answerReplayed:
		a.first = redisdb.TextAt(v, 2)
	case reserveUnknownSKU:
		a.line = redisdb.NumberAt(v, 2)
	case reserveNotStarted:
		a.startsIn = time.Duration(redisdb.NumberAt(v, 2)) * time.Millisecond
	case reserveOver:
		a.idle = redisdb.NumberAt(v, 2) == 1
	case reserveLimit:
		a.remaining = integer(v, 2)
	case reserveShort:
		a.nextDue = redisdb.NumberAt(v, 2)
		for i := 3; i < len(v); i++ {
			a.available = append(a.available, integer(v, i))
		}
	}
	return a, nil
}

const (
	// dueAtOnce is how many due holds one reservation returns.
	dueAtOnce = 20
	// reserveTries bounds how often a reservation is tried: each try but the
	// first has returned due holds or repaired something.
	reserveTries = 1000
	// repairs is how often a sale may turn out other than this process knew it.
	repairs = 3
)

// attempt is one reservation on its way.
type attempt struct {
	ReserveStock
	home    *partition
	parts   []*partition
	id      string
	repairs int
}

// Reserve takes all lines for a user or none: one round trip for a sale of one
// partition. Refusals are not_started, ended, limit_reached, sold_out,
// validation_failed for an unknown sku and idempotency_key_reused.
func (l *Live) Reserve(ctx context.Context, r ReserveStock) (Reserved, error) {
	a := &attempt{ReserveStock: r}
	if err := l.route(ctx, a); err != nil {
		return Reserved{}, err
	}
	for range reserveTries {
		answer, err := l.tryReserve(ctx, a)
		if err != nil {
			return Reserved{}, err
		}
		again, err := l.repair(ctx, a, answer)
		if err != nil {
			return Reserved{}, err
		}
		if again {
			continue
		}
		if answer.status == reserveShort && len(a.parts) > 1 {
			return l.collect(ctx, a, answer)
		}
		return l.reserved(a, answer)
	}
	return Reserved{}, errMoving()
}

// errMoving ends a call that found the sale changed at each of many tries.
func errMoving() error {
	e := api.Errorf(api.CodeOverloaded, "the sale keeps changing")
	e.RetryAfter = time.Second
	return e
}

// route finds the user's partition and makes the id, which tells it.
func (l *Live) route(ctx context.Context, a *attempt) error {
	parts, err := l.partitionsOf(ctx, a.Sale)
	if err != nil {
		return err
	}
	a.parts, a.home = parts, parts[Home(a.Request.User, len(parts))]
	a.id = newID(a.home.index)
	return nil
}

func (l *Live) tryReserve(ctx context.Context, a *attempt) (reserveAnswer, error) {
	cmd := l.reserveCmd(ctx, a)
	if err := l.write(ctx, stepReserve, cmd); err != nil {
		return reserveAnswer{}, err
	}
	return l.readReserve(cmd)
}

func (l *Live) reserveCmd(ctx context.Context, a *attempt) *redis.Cmd {
	keys := a.home.core(a.home.orders)
	if a.Once.Key != "" {
		keys = append(keys, a.home.once(a.Once.Name()))
	}
	args := make([]any, 0, 7+2*len(a.Request.Lines))
	args = append(args, l.o.RunID, len(a.parts), a.Request.User, a.id, a.Once.Body[:], api.IdempotencyTTL.Milliseconds(), dueAtOnce)
	for _, line := range a.Request.Lines {
		args = append(args, line.SKU, line.Quantity)
	}
	return l.scripts.reserve.Cmd(ctx, keys, args...)
}

// repair does what an answer asks for before it counts, and says whether to try
// again.
func (l *Live) repair(ctx context.Context, a *attempt, answer reserveAnswer) (again bool, err error) {
	switch status := answer.status; {
	case status == answerAgain:
		return true, nil
	case a.repairs == repairs:
	case status == reserveElsewhere || status == answerAbsent && len(a.parts) > 1:
		a.repairs++
		return true, l.reroute(ctx, a)
	case a.home.index > 0 && status >= reserveUnknownSKU && status <= reserveLimit:
		a.repairs++
		return l.catchUp(ctx, a.home, answer.version, answer.idle)
	case len(a.parts) > 1 && answer.idle:
		a.repairs++
		return l.catchUp(ctx, a.home, answer.version, true)
	}
	return false, nil
}

// reroute reads again how many partitions a sale has.
func (l *Live) reroute(ctx context.Context, a *attempt) error {
	l.known.Delete(a.Sale)
	if err := l.route(ctx, a); err != nil {
		return err
	}
	_, err := l.catchUp(ctx, a.home, 0, false)
	return err
}

// reserved turns an answer into what the caller gets.
func (l *Live) reserved(a *attempt, answer reserveAnswer) (out Reserved, err error) {
	if err := l.usable(a.Sale, answer.status); err != nil {
		return Reserved{}, err
	}
	switch answer.status {
	case answerDone:
		out.Reservation = a.made(a.id, answer.expires)
		if out.Reservation.State == api.ReservationSold {
			out.Order = &Order{Reservation: a.id, Sale: a.Sale, User: a.Request.User, Lines: a.Request.Lines, CreatedAt: answer.soldAt}
		}
		return out, nil
	case answerReplayed:
		if len(answer.first) <= idLength {
			return Reserved{}, unexpected(l.scripts.reserve, answer)
		}
		out.Reservation, out.Replayed = a.made(answer.first[:idLength], answer.first[idLength:]), true
		return out, nil
	case answerReused:
		return Reserved{}, api.IdempotencyReused()
	case reserveShort:
		out.SoldOut = a.soldOut(answer)
		return out, out.SoldOut.refusal()
	}
	return out, l.refusal(answer)
}

// made is a reservation as it was when it was made, with the end of its hold.
func (a *attempt) made(id, expires string) api.Reservation {
	out := api.Reservation{ID: id, User: a.Request.User, Lines: a.Request.Lines, State: api.ReservationSold}
	if ms, _ := strconv.ParseInt(expires, 10, 64); ms > 0 {
		at := api.AtMillis(ms)
		out.State, out.ExpiresAt = api.ReservationHeld, &at
	}
	return out
}

func (a *attempt) soldOut(answer reserveAnswer) *SoldOut {
	s := &SoldOut{Available: make(map[string]int64, len(a.Request.Lines)), Version: answer.version}
	if answer.nextDue >= 0 {
		s.NextDue = max(time.Duration(answer.nextDue)*time.Millisecond, time.Nanosecond)
	}
	for i, n := range answer.available[:min(len(answer.available), len(a.Request.Lines))] {
		s.Available[a.Request.Lines[i].SKU] = n
	}
	return s
}

func (s *SoldOut) refusal() error {
	return api.Errorf(api.CodeSoldOut, "there is not enough left").With("available", s.Available)
}

// refusal is an expected refusal other than sold_out.
func (l *Live) refusal(answer reserveAnswer) error {
	switch answer.status {
	case reserveElsewhere:
		return ErrAbsent
	case reserveUnknownSKU:
		return api.Invalid("lines["+strconv.FormatInt(answer.line-1, 10)+"].sku", "unknown", "is not a sku of this sale")
	case reserveNotStarted:
		e := api.Errorf(api.CodeNotStarted, "the sale has not started")
		e.RetryAfter = answer.startsIn
		return e
	case reserveOver:
		return api.Errorf(api.CodeEnded, "the sale is over")
	case reserveLimit:
		return api.Errorf(api.CodeLimitReached, "this user may have %d more", answer.remaining).With("remaining", answer.remaining)
	}
	return unexpected(l.scripts.reserve, answer)
}
