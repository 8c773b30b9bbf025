package events

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"fanfare/store/queue"
)

// The states of an event's own work, the first letter of its report in the queue.
const (
	stateQueued    = queue.StateQueued
	stateTargeting = 'T' // part of the audience was targeted
	stateTargeted  = 'S' // the whole audience was targeted
	stateDone      = 'D' // targeted, and all notifications have ended: the report says how
	stateExpired   = queue.StateExpired
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

// Sent counts the notifications of an event that were sent by the process that targeted it, without
// those that were stored as jobs.
type Sent struct {
	Delivered, Failed, Expired int64
	// Made is how many notifications the event has, including stored ones, if that is known. If it
	// is 0, the number is the sum of those that have ended and those that were stored.
	Made int64
	// Why counts the failed notifications by reason.
	Why map[string]int64 `json:",omitempty"`
}

// none tells whether nothing was counted.
func (s *Sent) none() bool { return s.Delivered+s.Failed+s.Expired+s.Made == 0 }

// Count counts one notification under the label of its end.
func (s *Sent) Count(label string) {
	label, why, _ := strings.Cut(label, reasonMark)
	switch label {
	case LabelDelivered:
		s.Delivered++
	case LabelExpired:
		s.Expired++
	default:
		s.Failed++
		s.because(why, 1)
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
	counts Counts
	sent   Sent
	parts  int64 // number of parts that the event was split into; their counts are added to these
}

// ReportTargeting is the report of an event whose audience was partly targeted. sent counts its
// notifications that have already ended.
func (j *Job) ReportTargeting(all Counts, sent Sent) string {
	return (&progress{stateTargeting, j.Type, all, sent, j.Parts}).text()
}

// ReportTargeted is the report of an event whose whole audience was targeted.
func (j *Job) ReportTargeted(all Counts, sent Sent) string {
	return (&progress{stateTargeted, j.Type, all, sent, j.Parts}).text()
}

// ReportDone is the report of an event whose notifications have ended with its
// targeting.
func (j *Job) ReportDone(all Counts, sent Sent) string {
	return (&progress{state: stateDone, typ: j.Type, counts: all, sent: sent}).text()
}

// ReportExpired is the report of an event that had expired before it was targeted.
func (j *Job) ReportExpired() string {
	return (&progress{state: stateExpired, typ: j.Type}).text()
}

// End is the result that ends a small event or a part of one. ended tells whether its notifications
// have ended as well. The counts of a part go into the event's group (see addParts).
func (j *Job) End(all Counts, sent Sent, ended bool, reportTTL time.Duration) queue.Result {
	switch {
	case j.Of != "":
		return queue.Result{Label: LabelPart, Counts: PartCounts(all, sent)}
	case ended:
		return queue.Result{Report: j.ReportDone(all, sent)}
	}
	return queue.Result{Report: j.ReportTargeted(all, sent), ReportTTL: reportTTL}
}

// text is the letter of the state and the type, which has no blank, followed by the counts up to
// the last one that is not 0, each after a blank. A count of 0 is an empty text. The reasons of
// failed notifications follow after all counts.
func (p *progress) text() string {
	b := make([]byte, 0, len(p.typ)+24)
	b = append(append(b, p.state), p.typ...)
	c, s := &p.counts, &p.sent
	numbers := [...]int64{c.Recipients, c.IsActor, c.OptedOut, c.Muted, c.NoDevice, c.Live, s.Delivered, s.Failed, s.Expired, s.Made, p.parts}
	used := len(numbers)
	for used > 0 && numbers[used-1] == 0 && len(s.Why) == 0 {
		used--
	}
	for _, n := range numbers[:used] {
		if b = append(b, ' '); n != 0 {
			b = strconv.AppendInt(b, n, 10)
		}
	}
	for why, n := range s.Why {
		b = strconv.AppendInt(append(append(append(b, ' '), why...), '='), n, 10)
	}
	return string(b)
}

// parseProgress reads the form of text.
func parseProgress(text string) (p progress, err error) {
	p.state = text[0]
	fields := strings.Split(text[1:], " ")
	p.typ = fields[0]
	c, s := &p.counts, &p.sent
	numbers := [...]*int64{&c.Recipients, &c.IsActor, &c.OptedOut, &c.Muted, &c.NoDevice, &c.Live, &s.Delivered, &s.Failed, &s.Expired, &s.Made, &p.parts}
	for i, field := range fields[1:] {
		var n int64
		why, number, reason := strings.Cut(field, "=")
		if !reason {
			number = field
		}
		if number != "" {
			if n, err = strconv.ParseInt(number, 10, 64); err != nil {
				return p, fmt.Errorf("read the report %q: %w", text, err)
			}
		}
		if reason {
			s.because(why, n)
		} else if i < len(numbers) {
			*numbers[i] = n
		}
	}
	return p, nil
}
