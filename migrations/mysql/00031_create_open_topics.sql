-- +goose Up
-- +goose StatementBegin
CREATE TABLE open_topics (
    topic      VARCHAR(128) NOT NULL PRIMARY KEY,
    created_at BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
