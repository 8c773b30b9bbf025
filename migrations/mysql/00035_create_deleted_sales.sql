-- +goose Up
-- +goose StatementBegin
CREATE TABLE deleted_sales (
    id         VARCHAR(128) NOT NULL PRIMARY KEY,
    deletion   VARCHAR(32)  NOT NULL,
    used       BOOLEAN      NOT NULL,
    deleted_at BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
