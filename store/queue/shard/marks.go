package shard

// marked is what was marked of one job since the last call.
type marked struct {
	c      *Claimed
	fields []any // name, value, and so on
	report string
}

// Mark notes that a part of the job has ended and how, so that whoever takes the
// job over knows (Queue.Marks), and replaces the job's report unless it is "". Marks
// are gathered as results are, and written with or before the job's own result; they
// stay until the job is done, at most MaxAge or GroupRetention. Call it before Finish.
// Marks of a job that another process took over are not written.
func (c *Claimed) Mark(name, value, report string) {
	w := c.worker
	w.mu.Lock()
	if c.gone || c.finished.Load() { // another process has the job, or will have it: its marks count
		w.mu.Unlock()
		return
	}
	w.results.mark(c, name, value, report)
	w.results.since.CompareAndSwap(0, max(w.process.clock(), 1))
	w.mu.Unlock()
	w.sender.wake()
}

// mark lets a mark wait.
func (r *results) mark(c *Claimed, name, value, report string) {
	m := r.marks[c]
	if m == nil {
		m = &marked{c: c}
		r.marks[c] = m
	}
	m.fields = append(m.fields, name, value)
	if report != "" {
		m.report = report
	}
	r.unrecorded.Add(1)
}

// parts is how many parts were marked.
func (m *marked) parts() int64 { return int64(len(m.fields) / 2) }

// takeMarks takes the marks that a call with these results is to write: a job that is
// done needs none. gone are jobs whose marks are deleted.
func (r *results) takeMarks(ending []ended) (all []*marked, gone []string) {
	for i := range ending {
		e := &ending[i]
		if e.r.Outcome != Done && e.r.Outcome != Dead {
			continue
		}
		if m := r.marks[e.c]; m != nil { // the result makes its marks needless
			e.parts += m.parts()
			delete(r.marks, e.c)
		}
		if e.c.marked {
			gone = append(gone, e.c.ID)
		}
	}
	for c, m := range r.marks {
		c.marked = true
		all = append(all, m)
		delete(r.marks, c)
	}
	return all, gone
}

// NoteMarks notes that marks of the job are on record, which go when it is done.
func (c *Claimed) NoteMarks() {
	c.worker.mu.Lock()
	defer c.worker.mu.Unlock()
	c.marked = true
}
