-- +goose Up
-- +goose StatementBegin
CREATE TABLE token_keys (
    id          VARCHAR(32)  NOT NULL PRIMARY KEY,
    private_key CHAR(64)     NOT NULL,
    created_at  BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
