-- +goose Up
-- +goose StatementBegin
CREATE TABLE operations (
    id         VARCHAR(36)  NOT NULL PRIMARY KEY,
    action     VARCHAR(64)  NOT NULL,
    subject    VARCHAR(128) NOT NULL,
    turn       VARCHAR(192) NULL,
    since      BIGINT       NOT NULL,
    removed    TEXT         NOT NULL,
    kept       TEXT         NOT NULL,
    created_at BIGINT       NOT NULL,
    done_at    BIGINT       NULL,
    UNIQUE KEY operations_by_turn (turn),
    KEY operations_by_age (done_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
