-- +goose Up
-- +goose StatementBegin
CREATE TABLE topic_members (
    topic     VARCHAR(128) NOT NULL,
    user_id   VARCHAR(128) NOT NULL,
    joined_at BIGINT       NOT NULL,
    PRIMARY KEY (topic, user_id),
    KEY topic_members_by_user (user_id, topic)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
