package stock

import (
	"time"

	"fanfare/store/redisdb"
)

const (
	// openRest is the longest that an open sale is not swept, and farRest one in which
	// nobody can reserve.
	openRest = time.Second
	farRest  = time.Minute
	// toldRest is the longest that a sale is not swept while facts about sales are told: a process that has left some may have died,
	// and only a sweep tells that a sku of a sale with several partitions is low.
	toldRest = 500 * time.Millisecond
)

// rests has the sales that need no sweep for some time; nil: all sales are always swept.
type rests map[string]rest

// rest ends at a time, or when the sale's entry in the registry changes.
type rest struct {
	change string
	until  time.Time
}

// awake lists the sales that are to be swept now.
func (r rests) awake(sales map[string]registration, now time.Time) (awake []string) {
	for sale, registered := range sales {
		if s, ok := r[sale]; !ok || s.change != registered.change || !now.Before(s.until) {
			delete(r, sale)
			awake = append(awake, sale)
		}
	}
	return awake
}

// note lets a sale rest if all its partitions were swept at that time, have the same settings, and
// need no maintenance.
func (r rests) note(sales map[string]registration, found []finding, at time.Time) {
	if r == nil {
		return
	}
	swept := map[string][]finding{}
	for _, f := range found {
		swept[f.sale] = append(swept[f.sale], f)
	}
	for sale, parts := range swept {
		if d := restOf(parts); d > 0 && len(parts) == sales[sale].partitions {
			r[sale] = rest{sales[sale].change, at.Add(d)}
		}
	}
	for sale := range r {
		if _, ok := sales[sale]; !ok {
			delete(r, sale)
		}
	}
}

// restOf is how long a sale needs no sweep; 0: it needs one.
func restOf(parts []finding) time.Duration {
	d := farRest
	for _, f := range parts {
		if f.owes || f.answer.status != answerDone || f.answer.version != parts[0].answer.version {
			return 0
		}
		d = min(d, f.answer.rest())
	}
	return d
}

// rest is how long nothing can be due in a partition: until the next hold is over, or a hold
// that begins now. It also bounds how long the leftovers of a crash wait for the sweeper.
func (a sweepAnswer) rest() time.Duration {
	d := openRest
	if a.told != "" {
		d = toldRest
	}
	if a.hold > 0 {
		d = min(d, time.Duration(a.hold)*time.Millisecond)
	}
	switch {
	case a.left > 0: // what moves them may have died
	case a.held && a.told != "": // the end of the hold is to be told, whatever it is
	case a.now >= a.ends:
		d = farRest
	case a.now < a.starts:
		d = min(farRest, d+time.Duration(min(a.starts-a.now, farRest.Milliseconds()))*time.Millisecond)
	}
	d = min(d, time.Duration(max(a.compareIn(), 1))*time.Millisecond)
	if a.nextDue >= 0 {
		d = min(d, time.Duration(a.nextDue)*time.Millisecond)
	}
	return d
}

// swept logs one line when sales can't be swept, and one when they can again.
func (sw *sweeper) swept(o *redisdb.Outage, err error) {
	const all = 0
	if err != nil {
		if o.Failed(all) {
			sw.o.Logger.Warn("sales are not swept for now", "error", err)
		}
		return
	}
	if away, last := o.Worked(all); last {
		sw.o.Logger.Info("sales are swept again", "after", away)
	}
}
