package events

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
)

// How a notification has ended is kept as a text: a letter, the last 24 bits of the Unix time in seconds, and,
// if it failed, 12 bits of the digest of its reason, which the event's report names. Bits are written in base64.
const (
	timeLength    = 4
	reasonLength  = 2
	digestLength  = 5
	outcomeLength = 1 + timeLength
)

// states are how a notification ends, by their numbers, and letters the first letters of their outcomes.
var states = [5]api.NotificationState{
	api.NotificationDelivered, api.NotificationFailed, api.NotificationExpired, api.NotificationCancelled, api.NotificationSuperseded,
}

const (
	letters    = "dfecs"
	failing    = 1 // the number of api.NotificationFailed
	cancelling = 3 // that of api.NotificationCancelled
	superseded = 4 // that of api.NotificationSuperseded
)

// endUnder is the number of the state under a label, and the reason.
func endUnder(label string) (state int, why string) {
	label, why, _ = strings.Cut(label, reasonMark)
	switch label {
	case LabelDelivered:
		return 0, ""
	case LabelExpired:
		return 2, ""
	case LabelCancelled:
		return cancelling, ""
	case LabelSuperseded:
		return superseded, ""
	}
	return failing, why
}

// OutcomeText is how a notification ended at a time, under its label.
func OutcomeText(label string, at time.Time) string { return string(appendOutcome(nil, label, at)) }

func appendOutcome(b []byte, label string, at time.Time) []byte {
	state, why := endUnder(label)
	b = appendBits(append(b, letters[state]), uint32(at.Unix())<<8, timeLength)
	if state == failing {
		b = appendBits(b, digest(why), reasonLength)
	}
	return b
}

// appendBits appends the first bits of a number in base64, as n characters.
func appendBits(b []byte, bits uint32, n int) []byte {
	var raw [4]byte
	var text [6]byte
	binary.BigEndian.PutUint32(raw[:], bits)
	base64.RawURLEncoding.Encode(text[:], raw[:])
	return append(b, text[:n]...)
}

// outcome is the meaning of an OutcomeText.
type outcome struct {
	state api.NotificationState
	at    time.Time
	// because reports whether a reason may be that of a notification that failed, by its digest.
	because func(why string) bool
}

// cutOutcome reads the outcome at the begin of a text. now is after its time.
func cutOutcome(text string, now time.Time) (o outcome, rest string, ok bool) {
	if len(text) < outcomeLength {
		return o, "", false
	}
	state := strings.IndexByte(letters, text[0])
	b, err := base64.RawURLEncoding.DecodeString(text[1:outcomeLength])
	if state < 0 || err != nil {
		return o, "", false
	}
	o.state = states[state]
	o.at = lately(int64(b[0])<<16|int64(b[1])<<8|int64(b[2]), 24, now)
	rest = text[outcomeLength:]
	if o.state == api.NotificationFailed {
		if len(rest) < reasonLength {
			return o, "", false
		}
		reason := rest[:reasonLength]
		o.because = func(why string) bool { return digestOf(why)[:reasonLength] == reason }
		rest = rest[reasonLength:]
	}
	return o, rest, true
}

// lately returns the latest time, up to now, whose Unix time has these low n bits.
func lately(bits int64, n int, now time.Time) time.Time {
	latest := now.Add(time.Hour).Unix() // a clock may be behind
	return time.Unix(latest-(latest-bits)&(1<<n-1), 0)
}

// tell fills in how the notification ended. reasons are those for which the event's notifications failed.
func (o outcome) tell(n *api.UserNotification, reasons map[string]int64) {
	n.State, n.At = o.state, new(api.At(o.at))
	if o.because == nil {
		return
	}
	var may []string
	for why := range reasons {
		if o.because(why) {
			may = append(may, why)
		}
	}
	if len(may) == 1 {
		n.Reason = may[0]
	}
}

// digest is 32 bits of the digest of a name.
func digest(name string) uint32 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint32(sum[:])
}

// digestOf is 30 bits of the digest of a name, in base64.
func digestOf(name string) string { return string(appendBits(nil, digest(name), digestLength)) }

// noDigest stands for a name that an event does not have.
const noDigest = "....."

// subjectsMark begins the digests of actor and object.
const subjectsMark = '@'

// subjects are the digests of the event's actor and object; "" if it has neither.
func (j *Job) subjects() string {
	if j.Actor == "" && j.Object == "" {
		return ""
	}
	b := make([]byte, 0, 2*digestLength)
	for _, name := range [2]string{j.Actor, j.Object} {
		if name == "" {
			b = append(b, noDigest...)
		} else {
			b = appendBits(b, digest(name), digestLength)
		}
	}
	return string(b)
}

// ending is how a notification has ended.
type ending struct {
	id, mark string
	at       time.Time
}

// Keep keeps how the notification with an id ended at a time, under its mark.
func (s *Sent) Keep(id, mark string, at time.Time) { s.each = append(s.each, ending{id, mark, at}) }

// appendOutcomes appends how all have ended, each behind its notification's key: the begin of its NotificationJob.
func (s *Sent) appendOutcomes(b []byte) []byte {
	for i := range s.each {
		e := &s.each[i]
		_, label := platformOf(e.mark)
		b = appendOutcome(appendBits(b, keyBits(e.id)<<(32-keySize), digestLength), label, e.at)
	}
	return b
}

// inReport reports whether the report has how all have ended.
func (s *Sent) inReport(report string) bool {
	return len(s.each) <= mostInReport && strings.HasSuffix(report, string(append(s.appendOutcomes(nil), knownEnd)))
}

// A note of an event or a part has a number of 8 bytes for each of its notifications: bits of the notification's id,
// of its state, of the Unix time in seconds, and of the digest of its reason. One that was superseded has the state of a
// cancelled one, and a reason, which that has not.
const (
	noteLength = 8
	keySize    = 30
	stateSize  = 2
	secondSize = 22
	reasonSize = 10
)

// keyBits are the first bits of a NotificationID.
func keyBits(id string) uint32 {
	n, _ := strconv.ParseUint(id[:8], 16, 32) // a UUID begins with 8 hexadecimal digits
	return uint32(n) >> (32 - keySize)
}

// note has how all notifications have ended.
func (s *Sent) note() string {
	b := make([]byte, 0, noteLength*len(s.each))
	for _, e := range s.each {
		_, label := platformOf(e.mark)
		state, why := endUnder(label)
		reason := uint32(0)
		switch state {
		case failing:
			reason = digest(why) >> (32 - reasonSize)
		case superseded:
			state, reason = cancelling, 1
		}
		n := uint64(keyBits(e.id))<<stateSize | uint64(state)
		n = n<<secondSize | uint64(e.at.Unix())&(1<<secondSize-1)
		b = binary.BigEndian.AppendUint64(b, n<<reasonSize|uint64(reason))
	}
	return string(b)
}

// readNotes finds the outcomes of notifications, by their ids, in an event's notes. One is left out if two
// notifications may be meant.
func readNotes(notes string, now time.Time, ids ...string) map[string]outcome {
	wanted, found, more := map[uint32]string{}, map[string]outcome{}, map[string]bool{}
	for _, id := range ids {
		wanted[keyBits(id)] = id
	}
	for ; len(notes) >= noteLength; notes = notes[noteLength:] {
		n := binary.BigEndian.Uint64([]byte(notes[:noteLength]))
		id := wanted[uint32(n>>(stateSize+secondSize+reasonSize))]
		if id == "" {
			continue
		}
		state, reason := n>>(secondSize+reasonSize)&(1<<stateSize-1), uint32(n&(1<<reasonSize-1))
		if state == cancelling && reason != 0 {
			state = superseded
		}
		o := outcome{state: states[state], at: lately(int64(n>>reasonSize), secondSize, now)}
		if o.state == api.NotificationFailed {
			o.because = func(why string) bool { return digest(why)>>(32-reasonSize) == reason }
		}
		_, more[id] = found[id]
		found[id] = o
	}
	for id, twice := range more {
		if twice {
			delete(found, id)
		}
	}
	return found
}

// compact is the longest text with which a small hash of Redis stays in its compact encoding.
const compact = 64

// mostInReport is a number of outcomes of which no more fit into a compact report.
const mostInReport = compact / (digestLength + outcomeLength)

// knownEnd ends the field of appendKnown. A field with a reason has a count behind this character. A process that
// does not know this field reads a reason that no notification has.
const knownEnd = '='

// appendKnown appends the digests of the event's subjects and the outcomes of its notifications to a report, each of
// the two only if the report stays compact with it.
func (p *progress) appendKnown(b []byte) []byte {
	plain := len(b)
	if p.subjects != "" {
		b = append(append(b, ' ', subjectsMark), p.subjects...)
	}
	subjects := len(b)
	if len(p.sent.each) > 0 && len(p.sent.each) <= mostInReport {
		if subjects == plain {
			b = append(b, ' ')
		}
		if b = p.sent.appendOutcomes(b); len(b) >= compact {
			b = b[:subjects]
		}
	}
	if len(b) == plain || len(b) >= compact {
		return b[:plain]
	}
	return append(b, knownEnd)
}

// setKnown reads what appendKnown has written.
func (p *progress) setKnown(text string) {
	if text != "" && text[0] == subjectsMark && len(text) > 2*digestLength {
		p.subjects, text = text[1:1+2*digestLength], text[1+2*digestLength:]
	}
	p.each = text
}

// outcomes reads how the event's notifications have ended, by their keys.
func (p *progress) outcomes(now time.Time) map[string]outcome {
	all := map[string]outcome{}
	for rest := p.each; len(rest) > digestLength; {
		key := rest[:digestLength]
		o, after, ok := cutOutcome(rest[digestLength:], now)
		if !ok {
			break
		}
		all[key], rest = o, after
	}
	return all
}

// is reports whether a name is that of the event's actor (0) or object (1); nil: it is not known. A report that has
// outcomes, but no subjects, is that of an event without.
func (p *progress) is(subject int, names ...string) *bool {
	if p.subjects == "" && p.each == "" {
		return nil
	}
	found := false
	for _, name := range names {
		found = found || p.subjects != "" && digestOf(name) == p.subjects[subject*digestLength:(subject+1)*digestLength]
	}
	return &found
}

// Waiting is what the record of a notification says that waits for a reason; the queue adds until when. answered
// tells that the push service gave the reason.
func Waiting(reason string, answered bool) string {
	letter := "w"
	if answered {
		letter = "r"
	}
	return letter + reason[:min(len(reason), maxWhy)] + " "
}

// maxWhy is the longest reason that is kept of a notification that waits, in bytes.
const maxWhy = 40

// tellWaiting fills in what the record of a live notification says.
func tellWaiting(n *api.UserNotification, job *queue.Found, now time.Time) {
	n.State = api.NotificationWaiting
	if job.Text != "" && job.Text[0] == 'r' {
		n.State = api.NotificationRetrying
	}
	blank := strings.LastIndexByte(job.Text, ' ')
	if blank < 1 {
		return
	}
	n.Reason = strings.ToValidUTF8(job.Text[1:blank], "")
	if ms, err := strconv.ParseInt(job.Text[blank+1:], 10, 64); err == nil && ms > now.UnixMilli() {
		n.Until = new(api.AtMillis(ms))
	}
}
