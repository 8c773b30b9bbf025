-- +goose Up
-- +goose StatementBegin
CREATE TABLE token_keys (
    id          TEXT    NOT NULL PRIMARY KEY,
    private_key TEXT    NOT NULL,
    created_at  INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
