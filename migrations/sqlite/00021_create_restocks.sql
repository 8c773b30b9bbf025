-- +goose Up
-- +goose StatementBegin
CREATE TABLE restocks (
    sale       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    answer     TEXT    NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (sale, name)
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX restocks_by_age ON restocks (expires_at);
