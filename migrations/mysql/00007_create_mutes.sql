-- +goose Up
-- +goose StatementBegin
CREATE TABLE mutes (
    user_id    VARCHAR(128) NOT NULL,
    object     VARCHAR(128) NOT NULL,
    until      BIGINT       NULL,
    created_at BIGINT       NOT NULL,
    PRIMARY KEY (user_id, object)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
