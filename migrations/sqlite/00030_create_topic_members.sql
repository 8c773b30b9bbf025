-- +goose Up
-- +goose StatementBegin
CREATE TABLE topic_members (
    topic     TEXT    NOT NULL,
    user_id   TEXT    NOT NULL,
    joined_at INTEGER NOT NULL,
    PRIMARY KEY (topic, user_id)
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX topic_members_by_user ON topic_members (user_id, topic);
