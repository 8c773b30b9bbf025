-- +goose Up
-- +goose StatementBegin
CREATE TABLE token_revocations (
    user_id TEXT    NOT NULL PRIMARY KEY,
    up_to   INTEGER NOT NULL,
    version INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX token_revocations_by_version ON token_revocations (version);
