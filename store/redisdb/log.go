package redisdb

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogLibrary sends what the Redis client library has to say (dials that fail,
// masters that change) to a logger, at debug level: what matters shows in the
// errors of the calls. The library has one logger for the whole process, so
// only main calls this; without it the library writes to standard error.
func LogLibrary(l *slog.Logger) { redis.SetLogger(libraryLogger{l}) }

type libraryLogger struct{ l *slog.Logger }

// Printf is what the library calls.
func (l libraryLogger) Printf(ctx context.Context, format string, v ...any) {
	if l.l.Enabled(ctx, slog.LevelDebug) {
		l.l.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, v...))
	}
}
