-- +goose Up
-- +goose StatementBegin
CREATE TABLE uploads (
    id          TEXT    NOT NULL PRIMARY KEY,
    owner       TEXT    NOT NULL,
    visibility  TEXT    NOT NULL,
    deleted     BOOLEAN NOT NULL DEFAULT FALSE,
    uploaded_at INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX uploads_newest ON uploads (owner, visibility, deleted, uploaded_at, id);
