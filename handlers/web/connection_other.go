//go:build !linux

package web

import (
	"errors"
	"syscall"
	"time"
)

// closeUnacknowledged is not supported here: the deadlines of writes have to reveal that nothing
// arrives.
func closeUnacknowledged(syscall.Conn, time.Duration) error { return errors.ErrUnsupported }

// acknowledged is not supported here.
func acknowledged(syscall.Conn) (acked, open uint64, err error) { return 0, 0, errors.ErrUnsupported }
