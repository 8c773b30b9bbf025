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
	// Version is the sale's.
	Version int64
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

const (
	// dueAtOnce is how many due holds one reservation returns.
	dueAtOnce = 20
	// reserveTries bounds how often a reservation is tried: each try but the
	// first has returned due holds or repaired something.
	reserveTries = 1000
	// repairs is how often a sale may look different on a second look.
	repairs = 3
)

// attempt is one reservation on its way.
type attempt struct {
	ReserveStock
	home    *place
	places  []*place
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
		if redisdb.NumberAt(answer, 0) == reserveShort && len(a.places) > 1 {
			return l.collect(ctx, a, answer)
		}
		return l.readReserve(a, answer)
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
	places, err := l.placesOf(ctx, a.Sale)
	if err != nil {
		return err
	}
	a.places, a.home = places, places[Home(a.Request.User, len(places))]
	a.id = newID(a.home.partition)
	return nil
}

func (l *Live) tryReserve(ctx context.Context, a *attempt) ([]any, error) {
	cmd := l.reserveCmd(ctx, a)
	if err := l.write(ctx, stepReserve, cmd); err != nil {
		return nil, err
	}
	return reply(l.scripts.reserve, cmd)
}

func (l *Live) reserveCmd(ctx context.Context, a *attempt) *redis.Cmd {
	keys := a.home.core(a.home.orders)
	if a.Once.Key != "" {
		keys = append(keys, a.home.once(a.Once.Name()))
	}
	args := make([]any, 0, 7+2*len(a.Request.Lines))
	args = append(args, l.o.Run, len(a.places), a.Request.User, a.id, a.Once.Body[:], api.IdempotencyTTL.Milliseconds(), dueAtOnce)
	for _, line := range a.Request.Lines {
		args = append(args, line.SKU, line.Quantity)
	}
	return l.scripts.reserve.Cmd(ctx, keys, args...)
}

// repair does what an answer asks for before it counts, and says whether to try
// again.
func (l *Live) repair(ctx context.Context, a *attempt, answer []any) (again bool, err error) {
	switch status := redisdb.NumberAt(answer, 0); {
	case status == answerAgain:
		return true, nil
	case a.repairs == repairs:
	case status == reserveElsewhere || status == answerAbsent && len(a.places) > 1:
		a.repairs++
		return true, l.reroute(ctx, a)
	case a.home.partition > 0 && status >= reserveUnknownSKU && status <= reserveLimit:
		a.repairs++
		return l.catchUp(ctx, a.home, integer(answer, 1), status == reserveOver && redisdb.NumberAt(answer, 2) == 1)
	case len(a.places) > 1 && status == reserveOver && redisdb.NumberAt(answer, 2) == 1:
		a.repairs++
		return l.catchUp(ctx, a.home, integer(answer, 1), true)
	}
	return false, nil
}

// reroute looks a sale up again that is not as this process knows it.
func (l *Live) reroute(ctx context.Context, a *attempt) error {
	l.places.Delete(a.Sale)
	if err := l.route(ctx, a); err != nil {
		return err
	}
	_, err := l.catchUp(ctx, a.home, 0, false)
	return err
}

func (l *Live) readReserve(a *attempt, answer []any) (Reserved, error) {
	status := redisdb.NumberAt(answer, 0)
	if err := l.isShut(a.Sale, status); err != nil {
		return Reserved{}, err
	}
	out := Reserved{Version: integer(answer, 1)}
	switch status {
	case answerDone:
		out.Reservation = a.made(a.id, redisdb.TextAt(answer, 2))
		if out.Reservation.State == api.ReservationSold {
			out.Order = &Order{Reservation: a.id, Sale: a.Sale, User: a.Request.User, Lines: a.Request.Lines, CreatedAt: redisdb.NumberAt(answer, 3)}
		}
		return out, nil
	case answerReplayed:
		first := redisdb.TextAt(answer, 2)
		if len(first) <= idLength {
			return Reserved{}, unexpected(l.scripts.reserve, answer)
		}
		out.Reservation, out.Replayed = a.made(first[:idLength], first[idLength:]), true
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

func (a *attempt) soldOut(answer []any) *SoldOut {
	s := &SoldOut{Available: make(map[string]int64, len(a.Request.Lines)), Version: integer(answer, 1)}
	if due := redisdb.NumberAt(answer, 2); due >= 0 {
		s.NextDue = max(time.Duration(due)*time.Millisecond, time.Nanosecond)
	}
	for i, line := range a.Request.Lines {
		s.Available[line.SKU] = integer(answer, 3+i)
	}
	return s
}

func (s *SoldOut) refusal() error {
	return api.Errorf(api.CodeSoldOut, "there is not enough left").With("available", s.Available)
}

// refusal is an expected refusal other than sold_out.
func (l *Live) refusal(answer []any) error {
	switch redisdb.NumberAt(answer, 0) {
	case reserveElsewhere:
		return ErrAbsent
	case reserveUnknownSKU:
		i := redisdb.NumberAt(answer, 2) - 1
		return api.Invalid("lines["+strconv.FormatInt(i, 10)+"].sku", "unknown", "is not a sku of this sale")
	case reserveNotStarted:
		e := api.Errorf(api.CodeNotStarted, "the sale has not started")
		e.RetryAfter = time.Duration(redisdb.NumberAt(answer, 2)) * time.Millisecond
		return e
	case reserveOver:
		return api.Errorf(api.CodeEnded, "the sale is over")
	case reserveLimit:
		remaining := integer(answer, 2)
		return api.Errorf(api.CodeLimitReached, "this user may have %d more", remaining).With("remaining", remaining)
	}
	return unexpected(l.scripts.reserve, answer)
}
