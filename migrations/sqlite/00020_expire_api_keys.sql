-- +goose Up
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER NULL;
