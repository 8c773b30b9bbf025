package facts

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"fanfare/api"
)

// position is the last fact of a lane that a reader has looked at: its time in ms, and its number in the lane.
// The zero position is before all facts.
type position struct{ ms, n int64 }

func (p position) compare(o position) int {
	return cmp.Or(cmp.Compare(p.ms, o.ms), cmp.Compare(p.n, o.n))
}

// String is the position as an id in the lane's stream.
func (p position) String() string {
	return strconv.FormatInt(p.ms, 10) + "-" + strconv.FormatInt(p.n, 10)
}

// parsePosition reads the form of String.
func parsePosition(text string) (p position, ok bool) {
	ms, n, _ := strings.Cut(text, "-")
	var err1, err2 error
	p.ms, err1 = strconv.ParseInt(ms, 10, 64)
	p.n, err2 = strconv.ParseInt(n, 10, 64)
	return p, err1 == nil && err2 == nil && p.ms >= 0 && p.n >= 0 && p.String() == text
}

// positionForm begins the bytes of a position in all lanes.
const positionForm = 1

// positionsText is a position in all lanes: short, because it stands in a URL.
func positionsText(all []position) string {
	b := []byte{positionForm}
	b = binary.AppendUvarint(b, uint64(len(all)))
	newest := int64(0)
	for _, p := range all {
		newest = max(newest, p.ms)
	}
	b = binary.AppendUvarint(b, uint64(newest))
	for _, p := range all {
		b = binary.AppendUvarint(b, uint64(newest-p.ms))
		b = binary.AppendUvarint(b, uint64(p.n))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// parsePositions reads the form of positionsText, for so many lanes.
func parsePositions(text string, lanes int) ([]position, error) {
	wrong := api.Invalid("after", "cursor", "is not a position that a list gave as next")
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) == 0 || b[0] != positionForm {
		return nil, wrong
	}
	b = b[1:]
	read := func() int64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > 1<<62 {
			err = wrong
			return 0
		}
		b = b[n:]
		return int64(v)
	}
	if read() != int64(lanes) || err != nil {
		return nil, wrong
	}
	newest, all := read(), make([]position, lanes)
	for i := range all {
		all[i] = position{newest - read(), read()}
		if all[i].ms < 0 {
			err = wrong
		}
	}
	if err != nil || len(b) > 0 {
		return nil, wrong
	}
	return all, nil
}

// PositionOf is the position in all lanes that the positions of the lanes are, as ReadLane gave them. "" is before all facts.
func (s *Store) PositionOf(lanes []string) (string, error) {
	all := make([]position, len(lanes))
	for n, text := range lanes {
		var ok bool
		if all[n], ok = parsePosition(cmp.Or(text, position{}.String())); !ok {
			return "", fmt.Errorf("%q is no position in lane %d of facts", text, n)
		}
	}
	return positionsText(all), nil
}

// LanesOf are the positions of all lanes that a position is, for ReadLane. It may also be "", before the oldest facts, and
// api.FactsNow. A position that no list gave is CodeValidation.
func (s *Store) LanesOf(ctx context.Context, after string) ([]string, error) {
	lanes := make([]string, s.Lanes())
	switch after {
	case "":
		return lanes, nil
	case api.FactsNow:
		return s.Ends(ctx)
	}
	all, err := parsePositions(after, s.Lanes())
	for n, p := range all {
		lanes[n] = p.String()
	}
	return lanes, err
}
