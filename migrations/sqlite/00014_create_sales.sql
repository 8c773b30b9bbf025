-- +goose Up
-- +goose StatementBegin
CREATE TABLE sales (
    id             TEXT    NOT NULL PRIMARY KEY,
    version        INTEGER NOT NULL,
    items          TEXT    NOT NULL,
    starts_at      INTEGER NOT NULL,
    ends_at        INTEGER NOT NULL,
    per_user_limit INTEGER NOT NULL,
    hold_ms        INTEGER NOT NULL,
    idle_ms        INTEGER NOT NULL,
    partitions     INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
