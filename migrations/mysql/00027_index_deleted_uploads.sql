-- +goose Up
CREATE INDEX uploads_deleted ON uploads (deleted, updated_at);
