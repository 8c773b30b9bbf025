-- +goose Up
-- +goose StatementBegin
CREATE TABLE deleted_sales (
    id         TEXT    NOT NULL PRIMARY KEY,
    deletion   TEXT    NOT NULL,
    used       BOOLEAN NOT NULL,
    deleted_at INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
