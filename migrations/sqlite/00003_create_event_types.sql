-- +goose Up
-- +goose StatementBegin
CREATE TABLE event_types (
    type       TEXT    NOT NULL PRIMARY KEY,
    revision   INTEGER NOT NULL,
    definition TEXT    NOT NULL,
    deleted    BOOLEAN NOT NULL DEFAULT FALSE,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
