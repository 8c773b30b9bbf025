package chat

var _ = []any{decodeLive, liveChannel, userChannel, metaKey, fieldEpoch, fieldLast}
