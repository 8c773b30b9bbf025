-- +goose Up
-- +goose StatementBegin
CREATE TABLE sales (
    id             VARCHAR(128) NOT NULL PRIMARY KEY,
    version        BIGINT       NOT NULL,
    items          MEDIUMTEXT   NOT NULL,
    starts_at      BIGINT       NOT NULL,
    ends_at        BIGINT       NOT NULL,
    per_user_limit BIGINT       NOT NULL,
    hold_ms        BIGINT       NOT NULL,
    idle_ms        BIGINT       NOT NULL,
    partitions     INT          NOT NULL,
    created_at     BIGINT       NOT NULL,
    updated_at     BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
