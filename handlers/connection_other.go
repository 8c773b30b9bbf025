//go:build !linux

package handlers

import (
	"errors"
	"net"
	"time"
)

// closeUnacknowledged leaves it to the deadlines of writes to find out that
// nothing arrives.
func closeUnacknowledged(*net.TCPConn, time.Duration) error { return errors.ErrUnsupported }

// acknowledged is not known here.
func acknowledged(*net.TCPConn) (acked, open uint64, err error) { return 0, 0, errors.ErrUnsupported }
