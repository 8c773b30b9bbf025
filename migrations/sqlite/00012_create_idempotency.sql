-- +goose Up
-- +goose StatementBegin
CREATE TABLE idempotency (
    id         TEXT    NOT NULL PRIMARY KEY,
    body_hash  TEXT    NOT NULL,
    answer     TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX idempotency_by_age ON idempotency (created_at);
