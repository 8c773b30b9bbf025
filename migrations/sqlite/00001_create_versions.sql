-- +goose Up
CREATE TABLE versions (
    name    TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE versions;
