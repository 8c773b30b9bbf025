-- +goose Up
-- +goose StatementBegin
CREATE TABLE outbox (
    id         VARCHAR(36)  NOT NULL PRIMARY KEY,
    kind       VARCHAR(64)  NOT NULL,
    subject    VARCHAR(255) NOT NULL,
    payload    MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    created_at BIGINT       NOT NULL,
    KEY outbox_by_age (kind, created_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
