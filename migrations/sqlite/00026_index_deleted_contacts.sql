-- +goose Up
CREATE INDEX contacts_deleted ON contacts (updated_at) WHERE deleted = TRUE;
