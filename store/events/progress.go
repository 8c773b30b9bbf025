package events

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
)

// The states of an event's own work, the first letter of its report in the queue.
const (
	stateQueued    = queue.StateQueued
	stateTargeting = 'T' // part of the audience was targeted
	stateTargeted  = 'S' // the whole audience was targeted
	stateDone      = 'D' // targeted, and all notifications have ended: the report says how
	stateExpired   = queue.StateExpired
	// stateSuperseded is that of a live event whose audience, or the rest of it, is left out because of a newer one.
	stateSuperseded = 'V'
	// stateScheduled is that of a queued event that is not due yet; it is never stored.
	stateScheduled = 'L'
)

// Counts are numbers of users of an audience, by outcome.
type Counts struct {
	Recipients int64 `json:"r,omitempty"` // distinct users, whatever the outcome
	IsActor    int64 `json:"a,omitempty"`
	OptedOut   int64 `json:"o,omitempty"`
	Muted      int64 `json:"m,omitempty"`
	NoDevice   int64 `json:"n,omitempty"`
	Live       int64 `json:"l,omitempty"`
}

// Plus adds the counts of two parts of an audience.
func (c Counts) Plus(o Counts) Counts {
	return Counts{c.Recipients + o.Recipients, c.IsActor + o.IsActor, c.OptedOut + o.OptedOut, c.Muted + o.Muted,
		c.NoDevice + o.NoDevice, c.Live + o.Live}
}

// Suppressed returns the numbers of users who get nothing, by reason.
func (c Counts) Suppressed() map[string]int64 {
	return map[string]int64{"is_actor": c.IsActor, "opted_out": c.OptedOut, "muted": c.Muted, "no_device": c.NoDevice, "live": c.Live}
}

// Ends are numbers of notifications, by how they ended.
type Ends struct {
	Delivered, Failed, Expired int64
	Cancelled                  int64 `json:",omitempty"`
	Superseded                 int64 `json:",omitempty"`
	// Made is how many notifications there are, including stored ones, if that is known. If it
	// is 0, the number is the sum of those that have ended and those that were stored.
	Made int64
}

// ended is how many have ended.
func (e *Ends) ended() int64 { return e.Delivered + e.Failed + e.Expired + e.Cancelled + e.Superseded }

// Sent counts the notifications of an event that were sent by the process that targeted it, without
// those that were stored as jobs.
type Sent struct {
	Ends
	// Why counts the failed notifications by reason.
	Why map[string]int64 `json:",omitempty"`
	// Others are those of the numbers that belong to each of the OtherPlatforms; the rest is APNs'.
	Others [len(OtherPlatforms)]Ends `json:",omitzero"`

	each     []ending // how each has ended, see Keep
	failures string   // see Fail
	kept     int      // how many they are
}

// Make counts n notifications that an event has on a platform.
func (s *Sent) Make(p api.Platform, n int64) {
	s.on(p, func(e *Ends) { e.Made += n })
}

// Count counts one notification under its mark, which has not LabelStored.
func (s *Sent) Count(mark string) {
	p, label := platformOf(mark)
	label, why, _ := strings.Cut(label, reasonMark)
	s.on(p, func(e *Ends) {
		switch label {
		case LabelDelivered:
			e.Delivered++
		case LabelExpired:
			e.Expired++
		case LabelCancelled:
			e.Cancelled++
		case LabelSuperseded:
			e.Superseded++
		default:
			e.Failed++
		}
	})
	s.because(why, 1)
}

// on counts in the numbers of all platforms, and in those of one that is not APNs.
func (s *Sent) on(p api.Platform, count func(*Ends)) {
	count(&s.Ends)
	if i := slices.Index(OtherPlatforms[:], p); i >= 0 {
		count(&s.Others[i])
	}
}

// because counts n failed notifications under their reason, if it is known.
func (s *Sent) because(why string, n int64) {
	if why == "" {
		return
	}
	if s.Why == nil {
		s.Why = map[string]int64{}
	}
	s.Why[why] += n
}

// addReasons adds the reasons among counts, whose names begin with prefix.
func (s *Sent) addReasons(prefix string, counts map[string]int64) {
	for name, n := range counts {
		if why, ok := strings.CutPrefix(name, prefix+reasonMark); ok {
			s.because(why, n)
		}
	}
}

// progress is how far an event has come; the queue stores it as the event's report. The process
// that has claimed the event always writes the whole report, in the step that ends its work.
type progress struct {
	state  byte
	typ    string
	opens  bool // Job.Opened
	counts Counts
	sent   Sent
	parts  int64 // number of parts that the event was split into; their counts are added to these
	sendAt int64 // Job.SendAt
	// broadcast is 1 for an event to a broadcast, which has no recipients that fanfare knows.
	broadcast int64

	subjects string // Job.subjects
	each     string // how notifications have ended, as a report that was read tells it
	// cancelled is a mark beside the report, which nobody who writes the report changes.
	cancelled queue.CancelMark
}

func (j *Job) report(state byte, all Counts, sent Sent, parts int64) string {
	p := &progress{state: state, typ: j.Type, opens: j.Opened, counts: all, sent: sent, parts: parts, sendAt: j.SendAt, subjects: j.subjects()}
	if j.Audience.Channel != nil {
		p.broadcast = 1
	}
	return p.text()
}

// ReportQueued is the report of an event of which nothing was begun yet.
func (j *Job) ReportQueued() string {
	return j.report(stateQueued, Counts{}, Sent{}, 0)
}

// queuedReport is what ReportQueued makes, without actor and object, of an event whose report was read.
func queuedReport(p *progress) string {
	return (&progress{state: stateQueued, typ: p.typ, opens: p.opens, sendAt: p.sendAt, broadcast: p.broadcast}).text()
}

// ReportTargeting is the report of an event whose audience was partly targeted. sent counts its
// notifications that have already ended.
func (j *Job) ReportTargeting(all Counts, sent Sent) string {
	return j.report(stateTargeting, all, sent, j.Parts)
}

// ReportTargeted is the report of an event whose whole audience was targeted.
func (j *Job) ReportTargeted(all Counts, sent Sent) string {
	return j.report(stateTargeted, all, sent, j.Parts)
}

// ReportDone is the report of an event whose notifications have ended with its
// targeting.
func (j *Job) ReportDone(all Counts, sent Sent) string {
	return j.report(stateDone, all, sent, 0)
}

// ReportExpired is the report of an event that had expired before it was targeted.
func (j *Job) ReportExpired() string {
	return j.report(stateExpired, Counts{}, Sent{}, 0)
}

// ReportSuperseded is the report of a live event that a newer one of its object went before, with what it came to.
func (j *Job) ReportSuperseded() string {
	return j.report(stateSuperseded, j.Counted, j.Sent, j.Parts)
}

// End is the result that ends a small event or a part of one. ended reports whether its notifications
// have ended as well. The counts of a part go into the event's group (see addParts). Those that failed are told one by one. How several notifications
// have ended is a note, unless the report has it.
func (j *Job) End(all Counts, sent Sent, ended bool, reportTTL time.Duration) queue.Result {
	if j.Of != "" {
		return queue.Result{Label: LabelPart, Counts: PartCounts(all, sent), Note: sent.note(), Failures: sent.failures}
	}
	r := queue.Result{Report: j.ReportDone(all, sent)}
	if !ended {
		r = queue.Result{Report: j.ReportTargeted(all, sent), ReportTTL: reportTTL}
	}
	if len(sent.each) > 1 && !sent.inReport(r.Report) {
		r.Note = sent.note()
	}
	r.Failures = sent.failures
	return r
}

// beforePlatforms is how many numbers of a report stand before those of single platforms.
const beforePlatforms = 11

// numbers lists the numbers of a report in the order of its text: first those that a report has always had, of all platforms
// together and then of each, then the later ones, which stand at the end so that a text can be read without them. It is an array
// because a slice would be allocated for each report.
func (p *progress) numbers() (all [beforePlatforms + 6*len(OtherPlatforms) + 4]*int64) {
	c, s := &p.counts, &p.sent
	all = [len(all)]*int64{
		&c.Recipients, &c.IsActor, &c.OptedOut, &c.Muted, &c.NoDevice, &c.Live, &s.Delivered, &s.Failed, &s.Expired, &s.Made, &p.parts,
	}
	cancelled := beforePlatforms + 4*len(s.Others) + 1
	superseded := cancelled + 1 + len(s.Others)
	all[cancelled-1], all[cancelled], all[superseded] = &p.sendAt, &s.Cancelled, &s.Superseded
	for i := range s.Others {
		e, at := &s.Others[i], beforePlatforms+4*i
		all[at], all[at+1], all[at+2], all[at+3] = &e.Made, &e.Delivered, &e.Failed, &e.Expired
		all[cancelled+1+i], all[superseded+1+i] = &e.Cancelled, &e.Superseded
	}
	all[len(all)-1] = &p.broadcast
	return all
}

// text is the letter of the state and the type, which has no blank, and opensMark if it counts who opens notifications, followed by the counts up to
// the last one that is not 0, each after a blank. A count of 0 is an empty text. Then come the reasons of
// failed notifications with their counts, and what appendKnown adds.
func (p *progress) text() string {
	b := make([]byte, 0, compact)
	b = append(append(b, p.state), p.typ...)
	if p.opens {
		b = append(b, opensMark...)
	}
	numbers := p.numbers()
	used := len(numbers)
	for used > 0 && *numbers[used-1] == 0 {
		used--
	}
	for _, n := range numbers[:used] {
		if b = append(b, ' '); *n != 0 {
			b = strconv.AppendInt(b, *n, 10)
		}
	}
	for why, n := range p.sent.Why {
		b = strconv.AppendInt(append(append(append(b, ' '), why...), '='), n, 10)
	}
	return string(p.appendKnown(b))
}

// typeOf reads the type in the form of text.
func typeOf(text string) string {
	typ, _, _ := strings.Cut(text[1:], " ")
	return strings.TrimSuffix(typ, opensMark)
}

// parseProgress reads the form of text.
func parseProgress(text string) (p progress, err error) {
	p.state = text[0]
	fields := strings.Split(text[1:], " ")
	p.typ, p.opens = strings.CutSuffix(fields[0], opensMark)
	numbers := p.numbers()
	for i, field := range fields[1:] {
		var n int64
		why, number, reason := strings.Cut(field, "=")
		if reason && number == "" {
			p.setKnown(why)
			continue
		}
		if !reason {
			number = field
		}
		if number != "" {
			if n, err = strconv.ParseInt(number, 10, 64); err != nil {
				return p, fmt.Errorf("read the report %q: %w", text, err)
			}
		}
		if reason {
			p.sent.because(why, n)
		} else if i < len(numbers) {
			*numbers[i] = n
		}
	}
	return p, nil
}
