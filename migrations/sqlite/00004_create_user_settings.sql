-- +goose Up
-- +goose StatementBegin
CREATE TABLE user_settings (
    user_id TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
