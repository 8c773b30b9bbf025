package events

import (
	"crypto/sha256"
	"encoding/base64"
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

// outcomeLetters are the first letters of outcomes.
var outcomeLetters = map[byte]api.NotificationState{
	'd': api.NotificationDelivered, 'f': api.NotificationFailed, 'e': api.NotificationExpired, 'c': api.NotificationCancelled,
}

// OutcomeText is how a notification ended at a time, under its label.
func OutcomeText(label string, at time.Time) string {
	label, why, _ := strings.Cut(label, reasonMark)
	letter := byte('f')
	switch label {
	case LabelDelivered:
		letter = 'd'
	case LabelExpired:
		letter = 'e'
	case LabelCancelled:
		letter = 'c'
	}
	s := at.Unix()
	text := string(letter) + base64.RawURLEncoding.EncodeToString([]byte{byte(s >> 16), byte(s >> 8), byte(s)})
	if letter == 'f' {
		text += digestOf(why)[:reasonLength]
	}
	return text
}

// outcome is the meaning of an OutcomeText.
type outcome struct {
	state  api.NotificationState
	at     time.Time
	reason string // its digest
}

// cutOutcome reads the outcome at the begin of a text. now is after its time.
func cutOutcome(text string, now time.Time) (o outcome, rest string, ok bool) {
	if len(text) < outcomeLength {
		return o, "", false
	}
	o.state = outcomeLetters[text[0]]
	b, err := base64.RawURLEncoding.DecodeString(text[1:outcomeLength])
	if o.state == "" || err != nil {
		return o, "", false
	}
	bits, latest := int64(b[0])<<16|int64(b[1])<<8|int64(b[2]), now.Add(time.Hour).Unix() // a clock may be behind
	o.at = time.Unix(latest-(latest-bits)&(1<<24-1), 0)
	rest = text[outcomeLength:]
	if o.state == api.NotificationFailed {
		if len(rest) < reasonLength {
			return o, "", false
		}
		o.reason, rest = rest[:reasonLength], rest[reasonLength:]
	}
	return o, rest, true
}

// tell fills in how the notification ended. reasons are those for which the event's notifications failed.
func (o outcome) tell(n *api.UserNotification, reasons map[string]int64) {
	at := api.At(o.at)
	n.State, n.At = o.state, &at
	for why := range reasons {
		if o.reason == digestOf(why)[:reasonLength] {
			n.Reason = why
		}
	}
}

// digestOf is 30 bits of the digest of a name, in base64.
func digestOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:4])[:digestLength]
}

// noDigest stands for a name that an event does not have.
const noDigest = "....."

// subjectsMark begins the digests of actor and object.
const subjectsMark = '@'

// subjects are the digests of the event's actor and object; "" if it has neither.
func (j *Job) subjects() string {
	if j.Actor == "" && j.Object == "" {
		return ""
	}
	digests := [2]string{noDigest, noDigest}
	for i, name := range [2]string{j.Actor, j.Object} {
		if name != "" {
			digests[i] = digestOf(name)
		}
	}
	return digests[0] + digests[1]
}

// Note keeps, for the event's report, how the notification with an id ended at a time, under its mark.
func (s *Sent) Note(id, mark string, at time.Time) {
	if len(s.each) > compact { // they do not fit into the report
		return
	}
	_, label := platformOf(mark)
	s.each += keyOf(id) + OutcomeText(label, at)
}

// keyOf is the key of a notification's outcome in the report: the begin of its NotificationJob, from its
// NotificationID.
func keyOf(id string) string {
	b := make([]byte, 0, 4)
	for i := 0; i < 8; i += 2 {
		b = append(b, hexDigit(id[i])<<4|hexDigit(id[i+1]))
	}
	return base64.RawURLEncoding.EncodeToString(b)[:digestLength]
}

func hexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// compact is the longest text with which a small hash of Redis stays in its compact encoding.
const compact = 64

// known is what a report tells beside its numbers, as much as leaves a text of a length compact: the digests of
// the event's subjects, and how its notifications have ended. The equals sign at the end tells it from a reason,
// which has a count: processes that do not know the field read a reason that no notification has.
func (p *progress) known(length int) string {
	subjects := p.subjects
	if subjects != "" {
		subjects = string(subjectsMark) + subjects
	}
	for _, text := range []string{subjects + p.sent.each, subjects} {
		if text != "" && length+len(text)+2 <= compact {
			return " " + text + "="
		}
	}
	return ""
}

// setKnown reads the form of known.
func (p *progress) setKnown(text string) {
	if text != "" && text[0] == subjectsMark && len(text) > 2*digestLength {
		p.subjects, text = text[1:1+2*digestLength], text[1+2*digestLength:]
	}
	p.sent.each = text
}

// outcomes reads how the event's notifications have ended, by their keys.
func (p *progress) outcomes(now time.Time) map[string]outcome {
	all := map[string]outcome{}
	for rest := p.sent.each; len(rest) > digestLength; {
		key := rest[:digestLength]
		o, after, ok := cutOutcome(rest[digestLength:], now)
		if !ok {
			break
		}
		all[key], rest = o, after
	}
	return all
}

// is tells whether a name is that of the event's actor (0) or object (1); nil: it is not known. A report that has
// outcomes, but no subjects, is that of an event without.
func (p *progress) is(subject int, names ...string) *bool {
	if p.subjects == "" && p.sent.each == "" {
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
