package delivery

import (
	"log/slog"

	"fanfare/delivery/logsender"
)

// silentSender delivers every notification without any output.
func silentSender() *logsender.Sender {
	return logsender.New(slog.New(slog.DiscardHandler), func() bool { return false })
}
