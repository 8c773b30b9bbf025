package web

import (
	"io"
	"slices"
	"sync"

	"fanfare/api"
)

const (
	// firstPart is how much a body counts before its first byte has arrived.
	firstPart = 4 << 10
	// largePart is the size of a part of a body beyond api.MaxBody.
	largePart = 64 << 10
)

// largeParts are reused, so that bodies that are refused half-way leave no garbage.
var largeParts = sync.Pool{New: func() any { return new([largePart]byte) }}

// incoming is a body that is being read. Its memory and its share of the limit grow as it arrives,
// whatever length was announced and whatever the route allows. It counts until the request is
// answered.
type incoming struct {
	admission *admission
	info      *requestInfo
	size      int64 // announced; negative: unknown
	limit     int64 // the most that the route takes
	have      int64
	parts     [][]byte // all parts but the last are full
	large     []*[largePart]byte
}

// read reads the whole body.
func (in *incoming) read(body io.Reader) ([]byte, error) {
	defer in.giveBack()
	var last []byte // the free rest of the last part
	for {
		if len(last) == 0 {
			var err error
			if last, err = in.another(); err != nil {
				return nil, err
			}
		}
		n, err := body.Read(last)
		last, in.have = last[n:], in.have+int64(n)
		switch {
		case in.have == in.size, err == io.EOF && in.size < 0:
			return in.join(len(last)), nil
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
	}
}

// another adds a part as large as all before it, up to largePart. The parts together never
// exceed the body's size, or its limit and one more byte: that byte lets the reader find the
// end.
func (in *incoming) another() ([]byte, error) {
	most := in.size
	if most < 0 {
		most = in.limit + 1
	}
	n := min(max(firstPart, in.have), largePart, most-in.have)
	if err := in.admission.grow(in.info.body, in.info.body+n); err != nil {
		return nil, err
	}
	in.info.body += n
	var part []byte
	if in.have < api.MaxBody {
		part = make([]byte, n)
	} else {
		array := largeParts.Get().(*[largePart]byte)
		in.large = append(in.large, array)
		part = array[:n]
	}
	in.parts = append(in.parts, part)
	return part, nil
}

// join copies the parts into one piece; free is the number of unused bytes in the last part.
func (in *incoming) join(free int) []byte {
	end := len(in.parts) - 1
	in.parts[end] = in.parts[end][:len(in.parts[end])-free]
	if end == 0 {
		return in.parts[0]
	}
	return slices.Concat(in.parts...)
}

func (in *incoming) giveBack() {
	for _, array := range in.large {
		largeParts.Put(array)
	}
}
