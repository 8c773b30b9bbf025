-- +goose Up
-- +goose StatementBegin
CREATE TABLE mutes (
    user_id    TEXT    NOT NULL,
    object     TEXT    NOT NULL,
    until      INTEGER NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, object)
) WITHOUT ROWID;
-- +goose StatementEnd
