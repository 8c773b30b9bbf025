-- +goose Up
-- +goose StatementBegin
CREATE TABLE devices (
    token         TEXT    NOT NULL PRIMARY KEY,
    user_id       TEXT    NOT NULL,
    platform      TEXT    NOT NULL,
    topic         TEXT    NOT NULL,
    environment   TEXT    NOT NULL,
    state         TEXT    NOT NULL,
    reason        TEXT    NOT NULL DEFAULT '',
    registered_at INTEGER NOT NULL,
    dropped_at    INTEGER NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX devices_by_user ON devices (user_id, token);
