package stock

import (
	"context"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Settings are a sale without the state of its stock. Times are milliseconds since the Unix
// epoch; a PerUserLimit, IdleMS or MaxHoldMS of 0 means that there is none.
type Settings struct {
	ID           string
	Version      int64
	Items        []Item
	StartsAt     int64
	EndsAt       int64
	PerUserLimit int64
	HoldMS       int64
	MaxHoldMS    int64
	IdleMS       int64
	Partitions   int
	// Loading names the load that the sale comes from, or the call that made it.
	Loading string
}

// Item is the total of a sku.
type Item struct {
	SKU   string
	Total int64
	LowAt *int64 // the fact stock.below is told when not more units are available; nil: never
}

// Match is the condition of a change.
type Match = api.Match

// PutSale makes or changes a sale. Its request has been validated.
type PutSale struct {
	Sale    string
	Request *api.SaleRequest
	Match   Match
	// New: SQL has no such sale, so that it may be made.
	New bool
	// After names the deletion of the sale that had the id before; "": there was none.
	After string
}

// Change is the result of a PUT or of a change of stock.
type Change struct {
	// Created or Changed; neither: the sale was as requested already.
	Created, Changed bool
	// Replayed: the same idempotency key was answered before.
	Replayed bool
	// Version is the sale's version after a change of stock; a replay has the first
	// answer's version.
	Version int64
	// Sale is the sale after the change, or the present sale beside a refusal; nil: there
	// is none.
	Sale *api.Sale
	// Record are the settings to be recorded.
	Record Settings
}

// The statuses of sale_put.lua and sale_restock.lua, in addition to the common ones.
const (
	changeMismatch  = 7
	putConflict     = 8
	restockUnknown  = 8
	changeBounds    = 9
	changeNeeds     = 10
	restockTooLarge = 11

	putCreated = 1
)

// changeAnswer is the answer of lua/sale_put.lua or lua/sale_restock.lua; script and status
// decide which fields are set.
type changeAnswer struct {
	status            int64
	made              int64            // put, done: 0 unchanged, putCreated, or 2 changed
	version           int64            // restock, done; and needs
	total, held, sold int64            // restock, done
	needs             map[string]int64 // units that the first partition lacks, by sku
	state             []any            // done: the first partition as the change left it
}

// readNeeds reads {changeNeeds, version, sku and units in turn}.
func readNeeds(v []any) changeAnswer {
	a := changeAnswer{status: changeNeeds, version: integer(v, 1), needs: map[string]int64{}}
	for i := 2; i+1 < len(v); i += 2 {
		a.needs[redisdb.TextAt(v, i)] = integer(v, i+1)
	}
	return a
}

// readPut reads the answer in the order of the script's RETURNS.
func (e *editor) readPut(cmd *redis.Cmd) (changeAnswer, error) {
	v, err := redisdb.ListOf(cmd)
	switch status := redisdb.NumberAt(v, 0); {
	case err == nil && status == answerDone:
		return changeAnswer{status: status, made: redisdb.NumberAt(v, 1), state: redisdb.ListAt(v, 2)}, nil
	case status == changeNeeds:
		return readNeeds(v), nil
	default:
		return changeAnswer{status: status}, err
	}
}

// changeTries bounds how often a change is tried: each try but the last has
// returned due holds.
const changeTries = 1000

// settingsOf fills in the defaults of a request.
func settingsOf(sale string, r *api.SaleRequest) Settings {
	or := func(v *int64, d int64) int64 {
		if v == nil {
			return d
		}
		return *v
	}
	s := Settings{
		ID: sale, StartsAt: r.StartsAt.UnixMilli(), EndsAt: r.EndsAt.UnixMilli(), PerUserLimit: or(r.PerUserLimit, 0),
		HoldMS: or(r.HoldMS, api.DefaultHold.Milliseconds()), IdleMS: or(r.IdleMS, 0), MaxHoldMS: or(r.MaxHoldMS, 0), Partitions: int(or(r.Partitions, 1)),
	}
	for _, item := range r.Items {
		s.Items = append(s.Items, Item{SKU: item.SKU, Total: item.Units(), LowAt: item.LowAt})
	}
	return s
}

// Put makes a sale or changes it, if the condition holds. The first partition decides; the
// others get its settings. Refusals, each with the present sale in the Change, are
// version_mismatch, conflict (another content without a condition) and bounds. A sale that does
// not exist is ErrAbsent unless New. The change waits for SQL until SettingsRecorded.
func (e *editor) Put(ctx context.Context, p PutSale) (Change, error) {
	s := settingsOf(p.Sale, p.Request)
	if p.New {
		if err := e.makeRoom(ctx, s); err != nil {
			return Change{}, err
		}
	}
	first, request := newPartition(p.Sale, 0), NewLoading(p.After)
	answer, err := e.change(ctx, p.Sale, func() (changeAnswer, error) { return e.tryPut(ctx, first, p, s, request) })
	if err != nil {
		return Change{}, err
	}
	if answer.status != answerDone {
		return e.refusedPut(ctx, p.Sale, answer)
	}
	c := Change{Created: answer.made == putCreated, Changed: answer.made > putCreated}
	return e.changed(ctx, first, e.scripts.put, answer.state, c)
}

// changed completes a change that a script made; state is the first partition after it. An
// error from here on is answered with unknown_outcome, because the change was made.
func (e *editor) changed(ctx context.Context, first *partition, script *redisdb.Script, state []any, c Change) (Change, error) {
	k, err := parseState(first, script, state)
	if err == nil {
		err = e.usable(first.sale, k.status)
	}
	if err == nil {
		c.Record = k.settings
		err = e.finishChange(ctx, first.sale, k.settings.Partitions, c.Created || c.Changed)
	}
	if err == nil {
		c.Sale, err = e.partitions.saleAt(ctx, k)
	}
	if err != nil && (c.Created || c.Changed) {
		err = api.Errorf(api.CodeUnknownOutcome, "the sale was changed, but not all of it was told").Because(err)
	}
	return c, err
}

func (e *editor) tryPut(ctx context.Context, first *partition, p PutSale, s Settings, request string) (changeAnswer, error) {
	mayMake := 0
	if p.New {
		mayMake = 1
	}
	what := e.told(tellsExpired + tellsLow)
	args := []any{e.o.RunID, requestLifetime.Milliseconds(), redisdb.MatchText(p.Match), mayMake, sweptAtOnce, ChangesChannel(p.Sale), what}
	keys := first.telling(first.core(first.totals, first.once(request), first.out))
	cmd := e.scripts.put.Cmd(ctx, keys, append(args, settingsArgs(s)...)...)
	defer e.mayHaveLeft(first, what)
	if err := e.write(ctx, cmd); err != nil {
		return changeAnswer{}, err
	}
	return e.readPut(cmd)
}

// change repeats a call until its answer is final: the script may first have to return due
// holds, and the first partition to collect units from the others.
func (e *editor) change(ctx context.Context, sale string, call func() (changeAnswer, error)) (changeAnswer, error) {
	for range changeTries {
		answer, err := call()
		if err != nil {
			return changeAnswer{}, err
		}
		switch answer.status {
		case answerAgain:
			continue
		case changeNeeds:
			return e.changeCollected(ctx, sale, call, answer)
		default:
			return answer, e.usable(sale, answer.status)
		}
	}
	return changeAnswer{}, errMoving()
}

// changeCollected gathers the units that a change takes away in the first partition, with the
// right to move, and calls again. The script decides in the end, so that the change takes all
// of the units or none.
func (e *editor) changeCollected(ctx context.Context, sale string, call func() (changeAnswer, error), answer changeAnswer) (changeAnswer, error) {
	parts, err := e.partitionsOf(ctx, sale)
	if err != nil {
		return changeAnswer{}, err
	}
	release, err := e.mover.lockMoves(ctx, parts)
	if err != nil {
		return changeAnswer{}, err
	}
	defer release()
	shortAt := int64(0) // the version at which there was too little
	for range collectRounds {
		if answer.status == changeNeeds {
			if answer.version == shortAt { // the proof holds: no other change came between
				return changeAnswer{status: changeBounds}, nil
			}
			got, err := e.mover.gather(ctx, parts, gathering{to: parts[0], want: answer.needs})
			if err != nil {
				return changeAnswer{}, err
			}
			if got.short != nil {
				shortAt = answer.version
			}
		}
		if answer, err = call(); err != nil {
			return changeAnswer{}, err
		}
		if answer.status != answerAgain && answer.status != changeNeeds {
			return answer, e.usable(sale, answer.status)
		}
	}
	return changeAnswer{}, errMoving()
}

// refusedPut turns a refusal into its error, and adds the present sale.
func (e *editor) refusedPut(ctx context.Context, sale string, answer changeAnswer) (Change, error) {
	present, err := e.partitions.Sale(ctx, sale)
	if err != nil && api.CodeOf(err) != api.CodeSaleNotFound {
		return Change{}, err
	}
	c := Change{Sale: present}
	switch answer.status {
	case changeMismatch:
		return c, errMismatch(present)
	case putConflict:
		return c, api.Errorf(api.CodeConflict, "the sale exists with other content; change it with If-Match")
	case changeBounds:
		return c, errBounds()
	}
	return c, unexpected(e.scripts.put, answer)
}

// OfNone is the refusal of a change of a sale that does not exist; nil: the condition allows that.
func OfNone(m Match) error {
	if m.Version == 0 {
		return nil
	}
	return errMismatch(nil)
}

func errBounds() error {
	return api.Errorf(api.CodeBounds, "a sku or the number of partitions cannot go, nor units that are held or sold")
}

// errMismatch is the error with the present sale and its version.
func errMismatch(present *api.Sale) error {
	e := api.Errorf(api.CodeVersionMismatch, "the sale is not the one that the condition asks for")
	if present == nil {
		return e
	}
	return e.With("version", present.Version).With("sale", present)
}

// Settings reads a sale's settings from Redis, even if the sale cannot be worked on. The error may
// be ErrAbsent.
func (x *outbox) Settings(ctx context.Context, sale string) (Settings, error) {
	found, err := x.readStates(ctx, newPartition(sale, 0))
	if err != nil {
		return Settings{}, err
	}
	if found[0].status == answerAbsent {
		return Settings{}, ErrAbsent
	}
	return found[0].settings, nil
}

// UnrecordedSettings reads a sale's settings, and reports whether their version is still to be
// recorded.
func (x *outbox) UnrecordedSettings(ctx context.Context, sale string) (Settings, bool, error) {
	found, err := x.readStates(ctx, newPartition(sale, 0))
	if err != nil {
		return Settings{}, false, err
	}
	if err := x.usable(sale, found[0].status); err != nil {
		return Settings{}, false, err
	}
	return found[0].settings, found[0].recorded < found[0].version(), nil
}
