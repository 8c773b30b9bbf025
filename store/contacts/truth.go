package contacts

import (
	"context"
	"time"

	"fanfare/api"
	"fanfare/store/batch"
	"fanfare/store/record"
)

const (
	// sharedContacts is the largest number of contacts in a question that shares a statement. A
	// longer question has its own statement, so that others do not wait for it.
	sharedContacts = 16
	// sharedQuestions is how many questions one statement answers at most. It is large enough that
	// each costs little, and small enough that none waits long.
	sharedQuestions = 32
	// statementsAbreast is how many shared statements of a process may run at once.
	statementsAbreast = 4
	// slowStatement is how long a statement may run before another one may start beside it.
	slowStatement = 50 * time.Millisecond
	// statementTime limits a shared statement, and the single statements that follow if it fails.
	statementTime = 10 * time.Second
)

// truth reads from SQL what viewers may see of their contacts. Questions that arrive while a
// statement runs share the next one. So a statement never begins before the questions that it
// answers were asked, and each answer has everything that was committed by then.
type truth struct {
	// read runs one statement. Tests delay it or let it fail.
	read   func(context.Context, ...record.ActivityQuery) ([][]record.Activity, error)
	shared *batch.Group[*question, struct{}]
}

// question is the query of one reader, and its result. The reader may no longer wait for it.
type question struct {
	ctx context.Context
	record.ActivityQuery
	found []record.Activity
	err   error
}

func newTruth(rec *record.DB) *truth {
	t := &truth{read: rec.Activities}
	o := batch.Options{Most: sharedQuestions, Abreast: statementsAbreast, Patience: slowStatement, Timeout: statementTime}
	t.shared = batch.New(o, t.run)
	return t
}

// ask returns the activities for a query, in the query's order.
func (t *truth) ask(ctx context.Context, q record.ActivityQuery) ([]record.Activity, error) {
	mine := &question{ctx: ctx, ActivityQuery: q}
	if len(q.Contacts) > sharedContacts {
		t.runAlone(ctx, mine)
		return mine.found, mine.err
	}
	if _, err := t.shared.Do(ctx, mine); err != nil {
		return nil, tooLate(err)
	}
	return mine.found, mine.err
}

func tooLate(err error) error {
	return api.Errorf(api.CodeUnavailable, "the contacts could not be read in time").Because(err)
}

// run runs one statement for all questions whose readers still wait. If it fails for a reason that
// may be in one of the questions, it runs one statement for each.
func (t *truth) run(ctx context.Context, all []*question) (struct{}, error) {
	waiting := make([]*question, 0, len(all))
	queries := make([]record.ActivityQuery, 0, len(all))
	for _, q := range all {
		if err := q.ctx.Err(); err != nil {
			q.err = tooLate(err)
			continue
		}
		waiting, queries = append(waiting, q), append(queries, q.ActivityQuery)
	}
	if len(waiting) == 0 {
		return struct{}{}, nil
	}
	found, err := t.read(ctx, queries...)
	for i, q := range waiting {
		switch {
		case err == nil:
			q.found = found[i]
		case len(waiting) == 1 || api.CodeOf(err) == api.CodeUnavailable:
			q.err = err
		default:
			t.runAlone(ctx, q)
		}
	}
	return struct{}{}, nil
}

func (t *truth) runAlone(ctx context.Context, q *question) {
	found, err := t.read(ctx, q.ActivityQuery)
	if q.err = err; err == nil {
		q.found = found[0]
	}
}
