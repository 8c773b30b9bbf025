-- +goose Up
-- +goose StatementBegin
CREATE TABLE outbox (
    id         TEXT    NOT NULL PRIMARY KEY,
    kind       TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    payload    TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX outbox_by_age ON outbox (kind, created_at, id);
