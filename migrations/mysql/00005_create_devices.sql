-- +goose Up
-- +goose StatementBegin
CREATE TABLE devices (
    token         VARCHAR(200) NOT NULL PRIMARY KEY,
    user_id       VARCHAR(128) NOT NULL,
    platform      VARCHAR(16)  NOT NULL,
    topic         VARCHAR(128) NOT NULL,
    environment   VARCHAR(16)  NOT NULL,
    state         VARCHAR(16)  NOT NULL,
    reason        VARCHAR(128) NOT NULL DEFAULT '',
    registered_at BIGINT       NOT NULL,
    dropped_at    BIGINT       NULL,
    KEY devices_by_user (user_id, token)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
