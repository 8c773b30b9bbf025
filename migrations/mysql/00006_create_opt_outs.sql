-- +goose Up
-- +goose StatementBegin
CREATE TABLE opt_outs (
    user_id    VARCHAR(128) NOT NULL,
    type       VARCHAR(128) NOT NULL,
    created_at BIGINT       NOT NULL,
    PRIMARY KEY (user_id, type)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
