//go:build !linux

package web

import (
	"errors"
	"syscall"
	"time"
)

// closeUnacknowledged leaves it to the deadlines of writes to find out that
// nothing arrives.
func closeUnacknowledged(syscall.Conn, time.Duration) error { return errors.ErrUnsupported }

// acknowledged is not known here.
func acknowledged(syscall.Conn) (acked, open uint64, err error) { return 0, 0, errors.ErrUnsupported }
