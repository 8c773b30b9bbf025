package main

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process that ends by itself is an error, with the last lines of its output.
func TestAProcessThatEndsIsAnError(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // in place of the server
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := &world{ctx: t.Context(), dir: t.TempDir()}
	const script = `trap 'echo its last words; exit 3' TERM; touch ready; while :; do sleep 0.01; done`
	f, err := w.run(subject{once: func(w *world) medians {
		p := w.start("the server", l.Addr().String(), nil, "sh", "-c", script)
		eventually(w.ctx, time.Minute, "the trap", func() bool {
			_, err := os.Stat(p.cmd.Dir + "/ready")
			return err == nil
		})
		must(p.cmd.Process.Signal(syscall.SIGTERM))
		<-p.done
		return medians{"rate": 1}
	}, rows: []want{{"work", "rate", "/s", "", "", goal{}}}})
	if err == nil || !strings.Contains(err.Error(), "the server ended by itself (exit status 3)") || !strings.Contains(err.Error(), "its last words") {
		t.Errorf("%d rows and the error %v", len(f.rows), err)
	}
}

// An unexpected answer is an error and not a figure.
func TestALoadFailsByOneAnswer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 1024)
		for _, status := range []string{"202 Accepted", "503 Service Unavailable"} {
			if _, err := c.Read(buf); err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 " + status + "\r\nContent-Length: 6\r\n\r\nreason"))
		}
	}()
	one := requests(202, 1, [][]byte{request("POST", "/", "")}, l.Addr().String())
	var got sample
	err = attempt(func() { got = one.run(t.Context(), time.Hour) })
	if err == nil || !strings.Contains(err.Error(), "status 503 instead of 202: reason") {
		t.Errorf("%v and the error %v", got, err)
	}
}
