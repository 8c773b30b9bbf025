package shard

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// IDLength is that of the ids that the queue makes.
const IDLength = 32

// The kinds of a job's text, its first letter. A plain job has nothing but an id
// and a payload: no key, no guard, no history; a full one names everything. Of
// both there is one with a report.
const (
	kindPlain       = 'P'
	kindPlainReport = 'R'
	kindFull        = 'F'
	kindFullReport  = 'G'
	fullFields      = 12
	separator       = 0x1f // of the fields of a head
	named           = "1"  // has a record while it lives and a tombstone after its end
)

// Entry is a job as Redis keeps it, wherever it is: one text of a kind, a head and
// a payload (lua/part_text.lua). Whatever becomes of the job before its end is in
// the head: so a job needs no record beside it, unless it is to be found by its id.
type Entry struct {
	Job Job
	past
}

// past is what a job's head tells beside the Job itself.
type past struct {
	since          int64 // from when on its age counts, in ms: its enqueueing or NotBefore; 0: its entry's id tells
	attachments    string
	failures, lost int
	fence          int64
	named          string
	report         bool
}

// Init completes an entry that has its Job. Nobody else has the id of a fresh one.
func (e *Entry) Init(fresh bool) {
	e.failures, e.report = e.Job.Failures, e.Job.Report != ""
	if !fresh {
		e.named = named
	}
	if !e.Job.NotBefore.IsZero() {
		e.since = e.Job.NotBefore.UnixMilli()
	}
	if len(e.Job.Attachment) > 0 {
		e.attachments = strconv.Itoa(len(e.Job.Attachment))
	}
}

// size is about how many bytes the job takes on the wire.
func (e *Entry) size() int {
	size := len(e.Job.Payload) + 64
	for _, a := range e.Job.Attachment {
		size += len(a)
	}
	return size
}

// plain reports whether the job can be of the short kind.
func (e *Entry) plain() bool { return e.past.plain(&e.Job) }

func (p *past) plain(j *Job) bool {
	if p.named != "" || j.Key != "" || j.Unique != "" || j.Type != "" || j.Group != "" || j.Guard != "" {
		return false
	}
	return len(j.ID) == IDLength && j.Delay == 0 && len(j.Counts) == 0 && p.since == 0 && p.attachments == "" &&
		p.failures == 0 && p.lost == 0 && p.fence == 0
}

// head is the text of a job without its payload.
func (p *past) head(j *Job) string {
	var b strings.Builder
	if p.plain(j) {
		b.Grow(IDLength + 2)
		b.WriteByte(p.kind(kindPlain, kindPlainReport))
		b.WriteString(j.ID)
		b.WriteByte(0)
		return b.String()
	}
	since := ""
	if p.since > 0 {
		since = strconv.FormatInt(p.since, 10)
	}
	b.WriteByte(p.kind(kindFull, kindFullReport))
	fields := [fullFields]string{j.ID, j.Type, j.Key, j.Unique, j.Group, j.Guard, since, p.attachments,
		strconv.Itoa(p.failures), strconv.Itoa(p.lost), strconv.FormatInt(p.fence, 10), p.named}
	for i, v := range fields {
		if i > 0 {
			b.WriteByte(separator)
		}
		b.WriteString(v)
	}
	b.WriteByte(0)
	return b.String()
}

func (p *past) kind(without, with byte) byte {
	if p.report {
		return with
	}
	return without
}

// text is the head followed by the payload.
func (e *Entry) text() []byte {
	head := e.head(&e.Job)
	b := make([]byte, 0, len(head)+len(e.Job.Payload))
	return append(append(b, head...), e.Job.Payload...)
}

// parseEntry reads a text. Its payload is a part of it.
func parseEntry(text []byte) (*Entry, error) {
	zero := bytes.IndexByte(text, 0)
	if zero < 1 {
		return nil, fmt.Errorf("a job's text without a head")
	}
	e := &Entry{past: past{report: text[0] == kindPlainReport || text[0] == kindFullReport}}
	e.Job.Payload = text[zero+1:]
	head := string(text[1:zero])
	if text[0] == kindPlain || text[0] == kindPlainReport {
		e.Job.ID = head
		return e, nil
	}
	v := strings.Split(head, string(rune(separator)))
	if len(v) != fullFields {
		return nil, fmt.Errorf("a job's head of %d fields", len(v))
	}
	j := &e.Job
	j.ID, j.Type, j.Key, j.Unique, j.Group, j.Guard, e.attachments, e.named = v[0], v[1], v[2], v[3], v[4], v[5], v[7], v[11]
	e.since, _ = strconv.ParseInt(v[6], 10, 64) // written by this package
	e.failures, _ = strconv.Atoi(v[8])
	e.lost, _ = strconv.Atoi(v[9])
	e.fence, _ = strconv.ParseInt(v[10], 10, 64)
	return e, nil
}

// bare reports whether the job's end changes nothing but its entry and its report.
func (p *past) bare(j *Job) bool {
	return p.named == "" && j.Key == "" && j.Unique == "" && j.Group == "" && p.attachments == ""
}
