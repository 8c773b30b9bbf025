package app

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// patientPair is a connection of a patientListener, and its client's end.
func patientPair(t *testing.T) (served *patientConn, client net.Conn) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	t.Cleanup(func() { _ = inner.Close() })
	client, err = net.Dial("tcp", inner.Addr().String())
	storetest.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	conn, err := (&patientListener{Listener: inner}).Accept()
	storetest.Must(t, err)
	t.Cleanup(func() { _ = conn.(*patientConn).TCPConn.Close() })
	return conn.(*patientConn), client
}

// read reads a byte and returns the error.
func read(c net.Conn) error {
	_, err := c.Read(make([]byte, 1))
	return err
}

// A read deadline applies whenever it was set: before a read, while a read waits, and together with
// the write deadline. The last one applies.
func TestReadDeadline(t *testing.T) {
	t.Parallel()
	past := time.Unix(1, 0)
	mustBeOver := func(t *testing.T, err error) {
		t.Helper()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read: %v, want that the deadline has passed", err)
		}
	}
	t.Run("BeforeARead", func(t *testing.T) {
		t.Parallel()
		c, client := patientPair(t)
		storetest.Must(t, c.SetReadDeadline(past))
		mustBeOver(t, read(c))
		mustBeOver(t, read(c))
		storetest.Must(t, c.SetReadDeadline(past))
		storetest.Must(t, c.SetReadDeadline(time.Time{}))
		_, err := client.Write([]byte("ab"))
		storetest.Must(t, err)
		storetest.Must(t, read(c))
		storetest.Must(t, c.SetDeadline(past))
		mustBeOver(t, read(c))
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("write: %v", err)
		}
	})
	t.Run("WhileOneWaits", func(t *testing.T) {
		t.Parallel()
		c, client := patientPair(t)
		result := make(chan error)
		for range 3 {
			go func() { result <- read(c) }()
			storetest.Eventually(t, time.Minute, "somebody reads", c.reading)
			storetest.Must(t, c.SetReadDeadline(past))
			mustBeOver(t, <-result)
			if c.reading() {
				t.Fatal("nobody reads any more")
			}
			storetest.Must(t, c.SetReadDeadline(time.Time{}))
			_, err := client.Write([]byte("a"))
			storetest.Must(t, err)
			storetest.Must(t, read(c))
		}
	})
}
