package fanfare

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxLine is the longest line of a stream that is read, far more than the server sends.
const maxLine = 8 << 20

// StreamEvent is one server-sent event.
type StreamEvent struct {
	// ID is where a stream goes on that is opened again with StreamOptions.LastEventID; "" if the stream has no ids.
	ID   string
	Name string // message, redacted, gap, stock ...
	Data []byte // JSON
}

// reader takes the text of a stream apart, as the HTML standard says.
type reader struct {
	lines *bufio.Scanner
	id    string        // of the last event that was complete
	retry time.Duration // how long to wait before the stream is opened again, 0 if the server did not say
}

func newReader(text io.Reader, id string) *reader {
	r := &reader{lines: bufio.NewScanner(text), id: id}
	r.lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	return r
}

// next reads up to the end of the next event that has data, and calls alive for each line. An event that was cut in the
// middle is dropped.
func (r *reader) next(alive func()) (StreamEvent, error) {
	id, name, data, some := r.id, "", []byte(nil), false
	for r.lines.Scan() {
		alive()
		line := r.lines.Text()
		if line == "" {
			r.id = id
			if some {
				return StreamEvent{ID: id, Name: name, Data: data}, nil
			}
			name = ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			if some {
				data = append(data, '\n')
			}
			data, some = append(data, value...), true
		case "retry":
			if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
				r.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
	if err := r.lines.Err(); err != nil {
		return StreamEvent{}, err
	}
	return StreamEvent{}, io.EOF
}
