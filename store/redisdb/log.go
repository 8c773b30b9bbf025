package redisdb

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogLibrary sends what the client library says to a logger, at debug: those who
// asked are told by their errors. It is one setting of the whole process.
func LogLibrary(log *slog.Logger) { redis.SetLogger(library{log}) }

// library is the client library's logger.
type library struct{ log *slog.Logger }

// Printf is how the library logs.
func (l library) Printf(ctx context.Context, format string, v ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "redis client", "said", fmt.Sprintf(format, v...))
	}
}
