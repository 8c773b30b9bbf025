-- +goose Up
-- +goose StatementBegin
CREATE TABLE versions (
    name    TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
