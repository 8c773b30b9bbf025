-- +goose Up
CREATE INDEX outbox_by_subject ON outbox (kind, subject);

-- +goose Down
DROP INDEX outbox_by_subject ON outbox;
