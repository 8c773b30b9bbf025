-- +goose Up
-- +goose StatementBegin
CREATE TABLE restocks (
    sale       VARCHAR(128) NOT NULL,
    name       VARCHAR(32)  NOT NULL,
    version    BIGINT       NOT NULL,
    answer     VARCHAR(255) NOT NULL,
    expires_at BIGINT       NOT NULL,
    PRIMARY KEY (sale, name),
    KEY restocks_by_age (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
