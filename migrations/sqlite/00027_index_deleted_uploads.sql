-- +goose Up
CREATE INDEX uploads_deleted ON uploads (updated_at) WHERE deleted = TRUE;
