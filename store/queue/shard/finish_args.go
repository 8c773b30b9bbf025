package shard

import (
	"cmp"
	"encoding/json"
)

// factArgs is the number of arguments of a fact (lua/call_finish_told.lua).
const factArgs = 5

// fill writes the arguments, in the order of call_finish.lua: the jobs whose end
// changes nothing but their entry come first.
func (w *Worker) fill(c *call) {
	o := &w.Options
	age := int64(-1)
	if o.MaxAge > 0 {
		age = MS(o.MaxAge)
	}
	var plain, other []ended
	reportTTL := o.ReportRetention
	for _, e := range c.results {
		reportTTL = max(reportTTL, e.r.ReportTTL)
		if e.plain() {
			plain = append(plain, e)
		} else {
			other = append(other, e)
		}
	}
	c.results = append(plain, other...)
	c.args = make([]any, 0, 11+3*len(plain)+13*len(other)+8*len(c.marks))
	c.args = append(c.args, MS(o.Retention), MS(o.GroupRetention), MS(reportTTL), o.MaxAttempts, age, len(plain), len(other), len(c.marks), len(c.unmark))
	facts, tells := w.facts(c), o.Tells()
	if len(facts) > 0 || tells != "" { // what is not told costs nothing
		c.script, c.args = w.Scripts.finishTold, append(c.args, tells, len(facts)/factArgs)
		c.leaves = len(facts) > 0 || len(other) > 0
	}
	for _, e := range plain {
		c.args = append(c.args, e.c.place, e.c.ID, e.r.Report)
	}
	for i := range other {
		c.args = appendResult(c.args, other[i].c, &other[i].r)
	}
	for _, m := range c.marks {
		c.args = append(append(c.args, m.c.ID, m.report, len(m.fields)), m.fields...)
	}
	for _, id := range c.unmark {
		c.args = append(c.args, id)
	}
	c.args = append(c.args, facts...)
}

// plain reports whether the job is done and nothing but its entry and report has to change.
func (e *ended) plain() bool {
	return e.r.Outcome == Done && e.c.past.bare(&e.c.Job) && len(e.r.Counts) == 0 && e.r.Note == "" && e.r.Failures == ""
}

// appendResult adds a result's arguments, in the order of call_finish.lua.
func appendResult(args []any, c *Claimed, r *Result) []any {
	outcome, label := outcomeNames[r.Outcome], r.Label
	if r.Outcome == Done && label == "" {
		label = "done"
	}
	payload, fence, class := "", c.Fence, ""
	switch r.Outcome {
	case Done:
		class = r.Failures
	case Retry, Defer, Dead: // it may become a dead letter
		class = c.Class
	}
	if r.Outcome == Defer {
		label = cmp.Or(label, c.Aged)
	}
	aside := r.Parked
	if r.Outcome != Park {
		aside = r.Note
	}
	if r.Untouched {
		fence = c.past.fence
	}
	if r.Payload != nil {
		payload = "1" + string(r.Payload)
	}
	return append(args, c.place, outcome, c.past.head(&c.Job), fence, label, countsText(r.Counts), MS(c.Wait(*r)), payload, aside, r.Reason, r.Err, r.Report, class)
}

// countsText encodes the changes to a group's counters for scripts; "" means no change.
func countsText(counts map[string]int64) string {
	if len(counts) == 0 {
		return ""
	}
	b, _ := json.Marshal(counts) // numbers always marshal
	return string(b)
}

// facts are the arguments of the facts that a call tells, in the order of call_finish_told.lua: those of marks before those of
// results, which may be of the same jobs.
func (w *Worker) facts(c *call) (args []any) {
	for _, m := range c.marks {
		args = w.appendFacts(args, 0, m.facts)
	}
	for i := range c.results {
		args = w.appendFacts(args, i+1, c.results[i].r.Facts)
	}
	return args
}

// appendFacts adds the facts of a mark, or of the n-th result.
func (w *Worker) appendFacts(args []any, n int, facts []Fact) []any {
	for _, f := range facts {
		here := w.Lanes && f.Lane == w.n && f.Type != ""
		args = append(args, n, here, f.Type, f.Key, f.Data)
	}
	return args
}
