-- +goose Up
CREATE TABLE user_settings (
    user_id TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE user_settings;
