-- +goose Up
-- +goose StatementBegin
CREATE TABLE opt_outs (
    user_id    TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, type)
) WITHOUT ROWID;
-- +goose StatementEnd
