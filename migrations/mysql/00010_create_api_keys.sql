-- +goose Up
-- +goose StatementBegin
CREATE TABLE api_keys (
    id           VARCHAR(32)  NOT NULL PRIMARY KEY,
    name         VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    scopes       VARCHAR(255) NOT NULL,
    secret_hash  CHAR(64)     NOT NULL,
    created_at   BIGINT       NOT NULL,
    last_used_at BIGINT       NULL,
    revoked_at   BIGINT       NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
