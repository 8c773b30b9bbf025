-- +goose Up
-- +goose StatementBegin
CREATE TABLE token_revocations (
    user_id VARCHAR(128) NOT NULL PRIMARY KEY,
    up_to   BIGINT       NOT NULL,
    version BIGINT       NOT NULL,
    KEY token_revocations_by_version (version)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
