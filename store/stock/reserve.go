package stock

import (
	"context"
	"strconv"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// ReserveStock asks for a reservation. Its request has been validated.
type ReserveStock struct {
	Sale    string
	Request *api.ReservationRequest
	Once    api.Idempotency
	// Call is the id of the call (NewCall), which is the same for each try; "": each try is a
	// separate call.
	Call string
}

// NewCall names a call that may have to be tried again after its sale was brought back from
// the record.
func NewCall() string { return newRequest() }

// Reserved is the answer to a reservation.
type Reserved struct {
	Reservation api.Reservation
	// Replayed: this is the first answer to the same idempotency key.
	Replayed bool
	// Order is the order to be recorded, if the sale sells at once.
	Order *Order
	// SoldOut is set with the error sold_out.
	SoldOut *SoldOut
}

// SoldOut has the state of a sale that does not have enough units for a reservation.
type SoldOut struct {
	// Available is the number of available units of each requested sku.
	Available map[string]int64
	// NextDue is how long until the next hold ends; 0: there is none.
	NextDue time.Duration
	// Version is the version of the sale.
	Version int64
}

// The statuses of stock_reserve.lua, in addition to the common ones.
const (
	reserveElsewhere  = 7
	reserveUnknownSKU = 8
	reserveNotStarted = 9
	reserveOver       = 10
	reserveLimit      = 11
	reserveShort      = 12
)

// reserveAnswer is a caller's answer from lua/stock_reserve.lua; its status decides which
// fields are set.
type reserveAnswer struct {
	status, version int64
	expires         int64         // done, replayed: the end of the hold in ms, 0: sold
	madeAt          int64         // done: ms
	line            int64         // unknown sku: which line, from 1
	startsIn        time.Duration // not started
	idle            bool          // over: because nobody reserved for its idle time
	remaining       int64         // limit: units that the user may still reserve
	nextDue         int64         // short: ms to the next due hold, -1: none
	available       []int64       // short: of each line
}

// readReserve reads a caller's answer in the order of the script's RETURNS.
func readReserve(c *call) reserveAnswer {
	v := c.answer
	a := reserveAnswer{status: c.status, version: integer(c.head, 0)}
	switch a.status {
	case answerDone:
		a.madeAt, a.expires = redisdb.NumberAt(c.head, 1), redisdb.NumberAt(c.head, 2)
		if len(v) > 0 {
			a.expires, a.madeAt = redisdb.NumberAt(v, 1), redisdb.NumberAt(v, 2)
		}
	case answerReplayed:
		a.expires = redisdb.NumberAt(v, 1)
	case reserveUnknownSKU:
		a.line = redisdb.NumberAt(v, 1)
	case reserveNotStarted:
		a.startsIn = time.Duration(redisdb.NumberAt(v, 1)) * time.Millisecond
	case reserveOver:
		a.idle = redisdb.NumberAt(v, 1) == 1
	case reserveLimit:
		a.remaining = redisdb.NumberAt(v, 1)
	case reserveShort:
		a.nextDue = redisdb.NumberAt(v, 1)
		for i := 2; i < len(v); i++ {
			a.available = append(a.available, redisdb.NumberAt(v, i))
		}
	}
	return a
}

const (
	// dueAtOnce is how many due holds one reservation returns.
	dueAtOnce = 20
	// reserveTries bounds how often a reservation is tried: each try before the last
	// returned due holds or repaired something.
	reserveTries = 1000
	// repairs is how often one call corrects the data that its process has of a sale.
	repairs = 3
)

// attempt is a call of Reserve under way.
type attempt struct {
	ReserveStock
	home    *partition
	parts   []*partition
	id      string
	repairs int
}

// Reserve takes all lines for a user or none, in one round trip for a sale of one partition;
// callers that arrive meanwhile share the next one. Refusals are not_started, ended,
// limit_reached, sold_out, validation_failed for an unknown sku and idempotency_key_reused.
func (rs *reservations) Reserve(ctx context.Context, r ReserveStock) (Reserved, error) {
	a := &attempt{ReserveStock: r}
	if a.Call == "" {
		a.Call = newRequest()
	}
	if err := rs.route(ctx, a); err != nil {
		return Reserved{}, err
	}
	for range reserveTries {
		answer, err := rs.tryReserve(ctx, a)
		if err != nil {
			return Reserved{}, err
		}
		again, err := rs.repair(ctx, a, answer)
		if err != nil {
			return Reserved{}, err
		}
		if again {
			continue
		}
		if answer.status == reserveShort && len(a.parts) > 1 {
			return rs.collect(ctx, a, answer)
		}
		return rs.reserved(a, answer)
	}
	return Reserved{}, errMoving()
}

// errMoving ends a call that found a changed sale at each of its tries.
func errMoving() error {
	e := api.Errorf(api.CodeOverloaded, "the sale keeps changing")
	e.RetryAfter = time.Second
	return e
}

// route finds the user's home partition and makes the reservation's id, which begins with it.
func (rs *reservations) route(ctx context.Context, a *attempt) error {
	parts, err := rs.partitionsOf(ctx, a.Sale)
	if err != nil {
		return err
	}
	a.parts, a.home = parts, parts[Home(a.Request.User, len(parts))]
	name := a.Call
	if a.Once.Key != "" {
		name = a.Once.Name()
	}
	a.id = idOf(a.home, name)
	return nil
}

func (rs *reservations) tryReserve(ctx context.Context, a *attempt) (reserveAnswer, error) {
	c := &call{args: [callerArgs]any{a.Request.User, a.id, "", linesText(a.Request.Lines)}}
	if a.Once.Key != "" {
		c.once, c.args[2] = a.home.once(a.Once.Name()), string(a.Once.Body[:])+a.Call
	}
	if err := join(ctx, a.home.reserves, c); err != nil {
		return reserveAnswer{}, err
	}
	return readReserve(c), nil
}

// repair reacts to an answer that may not be final: more holds are due, or this process or the
// home partition has outdated settings. It says whether to try again.
func (rs *reservations) repair(ctx context.Context, a *attempt, answer reserveAnswer) (again bool, err error) {
	switch status := answer.status; {
	case status == answerAgain:
		return true, nil
	case a.repairs == repairs:
	case status == reserveElsewhere || status == answerAbsent && len(a.parts) > 1:
		a.repairs++
		return true, rs.reroute(ctx, a)
	case a.home.index > 0 && status >= reserveUnknownSKU && status <= reserveLimit:
		a.repairs++
		return rs.partitions.catchUp(ctx, a.home, answer.version, answer.idle)
	case len(a.parts) > 1 && answer.idle:
		a.repairs++
		return rs.partitions.catchUp(ctx, a.home, answer.version, true)
	}
	return false, nil
}

// reroute reads again how many partitions a sale has.
func (rs *reservations) reroute(ctx context.Context, a *attempt) error {
	rs.known.Delete(a.Sale)
	if err := rs.route(ctx, a); err != nil {
		return err
	}
	_, err := rs.partitions.catchUp(ctx, a.home, 0, false)
	return err
}

// reserved turns the script's answer into the method's.
func (rs *reservations) reserved(a *attempt, answer reserveAnswer) (out Reserved, err error) {
	if err := rs.usable(a.Sale, answer.status); err != nil {
		return Reserved{}, err
	}
	switch answer.status {
	case answerDone:
		out.Reservation = a.made(a.id, answer.expires)
		if out.Reservation.State == api.ReservationSold {
			out.Order = &Order{Reservation: a.id, Sale: a.Sale, User: a.Request.User, Lines: a.Request.Lines, CreatedAt: answer.madeAt}
		}
		return out, nil
	case answerReplayed:
		out.Reservation, out.Replayed = a.made(a.id, answer.expires), true
		return out, nil
	case answerReused:
		return Reserved{}, api.IdempotencyReused()
	case reserveShort:
		out.SoldOut = a.soldOut(answer)
		return out, out.SoldOut.refusal()
	}
	return out, rs.refusal(answer)
}

// made is the reservation in its first state: held until expires, or sold if that is 0.
func (a *attempt) made(id string, expires int64) api.Reservation {
	out := api.Reservation{ID: id, User: a.Request.User, Lines: a.Request.Lines, State: api.ReservationSold}
	if expires > 0 {
		out.State, out.ExpiresAt = api.ReservationHeld, new(api.AtMillis(expires))
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
func (rs *reservations) refusal(answer reserveAnswer) error {
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
	return unexpected(rs.scripts.reserve, answer)
}
