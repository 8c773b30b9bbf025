-- +goose Up
-- +goose StatementBegin
CREATE TABLE versions (
    name    VARCHAR(64) NOT NULL PRIMARY KEY,
    version BIGINT      NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
