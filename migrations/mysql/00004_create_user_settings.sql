-- +goose Up
-- +goose StatementBegin
CREATE TABLE user_settings (
    user_id VARCHAR(128) NOT NULL PRIMARY KEY,
    version BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
