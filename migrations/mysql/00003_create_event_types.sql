-- +goose Up
-- +goose StatementBegin
CREATE TABLE event_types (
    type       VARCHAR(128) NOT NULL PRIMARY KEY,
    revision   BIGINT       NOT NULL,
    definition MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    deleted    BOOLEAN      NOT NULL DEFAULT FALSE,
    created_at BIGINT       NOT NULL,
    updated_at BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
