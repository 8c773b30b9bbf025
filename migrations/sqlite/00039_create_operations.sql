-- +goose Up
-- +goose StatementBegin
CREATE TABLE operations (
    id         TEXT    NOT NULL PRIMARY KEY,
    action     TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    turn       TEXT    NULL,
    since      INTEGER NOT NULL,
    removed    TEXT    NOT NULL,
    kept       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    done_at    INTEGER NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE UNIQUE INDEX operations_by_turn ON operations (turn);
CREATE INDEX operations_by_age ON operations (done_at);
