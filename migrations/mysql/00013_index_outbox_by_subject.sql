-- +goose Up
CREATE INDEX outbox_by_subject ON outbox (kind, subject);
