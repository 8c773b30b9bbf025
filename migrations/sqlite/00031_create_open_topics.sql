-- +goose Up
-- +goose StatementBegin
CREATE TABLE open_topics (
    topic      TEXT    NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
