package h2

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/net/http2"
)

// The watch sees the same whatever pieces the bytes come in.
func TestFrameWatchSeesSettingsAndGoAway(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	f := http2.NewFramer(&stream, nil)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 9}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 7})
	_ = f.WriteSettingsAck()
	_ = f.WriteData(1, false, bytes.Repeat([]byte{4}, 5000))
	_ = f.WriteSettings()
	_ = f.WritePing(false, [8]byte{7, 7, 7})
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1<<32 - 1})
	_ = f.WriteGoAway(41, http2.ErrCodeNo, bytes.Repeat([]byte("debug"), 200))
	_ = f.WriteGoAway(0, http2.ErrCodeProtocol, nil)
	want := "[settings 7 settings -1 settings 2147483647 goaway 41 goaway 0]"
	for _, size := range []int{1, 2, 8, 9, 10, 100, 4096, stream.Len()} {
		var got []string
		w := &frameWatch{
			settings: func(n int) { got = append(got, fmt.Sprint("settings ", n)) },
			goAway:   func(n uint32) { got = append(got, fmt.Sprint("goaway ", n)) },
		}
		for piece := range slices.Chunk(stream.Bytes(), size) {
			w.feed(piece)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("pieces of %d: got %v", size, got)
		}
	}
}
