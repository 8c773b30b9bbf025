-- +goose Up
CREATE INDEX contacts_deleted ON contacts (deleted, updated_at);
