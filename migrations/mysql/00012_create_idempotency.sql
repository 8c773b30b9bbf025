-- +goose Up
-- +goose StatementBegin
CREATE TABLE idempotency (
    id         CHAR(64)   NOT NULL PRIMARY KEY,
    body_hash  CHAR(64)   NOT NULL,
    answer     MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    created_at BIGINT     NOT NULL,
    KEY idempotency_by_age (created_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
