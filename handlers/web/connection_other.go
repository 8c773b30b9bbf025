//go:build !linux

package web

import (
	"errors"
	"syscall"
	"time"
)

// closeUnacknowledged is not supported on this system. Only write deadlines end a lost connection.
func closeUnacknowledged(syscall.Conn, time.Duration) error { return errors.ErrUnsupported }

// acknowledged is not supported on this system.
func acknowledged(syscall.Conn) (acked, open uint64, err error) { return 0, 0, errors.ErrUnsupported }

// hasEnded is not supported on this system. A caller has left once net/http says so.
func hasEnded(syscall.Conn) bool { return false }
