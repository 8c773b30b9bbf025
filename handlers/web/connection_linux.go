package web

import (
	"cmp"
	"errors"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// closeUnacknowledged makes TCP close a connection on which written data was not acknowledged within
// the given time.
func closeUnacknowledged(c syscall.Conn, after time.Duration) error {
	return control(c, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
	})
}

// acknowledged returns how many bytes the other side has acknowledged in all, and how many are
// still open. The two cannot be read at once. open is read first, so that it may be too high but
// never too low.
func acknowledged(c syscall.Conn) (acked, open uint64, err error) {
	err = control(c, func(fd int) error {
		n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		if err != nil || n == 0 {
			return err
		}
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return err
		}
		acked, open = info.Bytes_acked, uint64(n)
		return nil
	})
	return acked, open, err
}

// hasEnded reports whether the other side has closed a connection, and nothing that it has sent is left to read.
func hasEnded(c syscall.Conn) bool {
	return control(c, func(fd int) error {
		var next [1]byte
		n, _, err := unix.Recvfrom(fd, next[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if n > 0 || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			return nil
		}
		return cmp.Or(err, io.EOF)
	}) != nil
}

func control(c syscall.Conn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}
