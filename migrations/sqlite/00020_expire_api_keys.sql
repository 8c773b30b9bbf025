-- +goose Up
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER NULL;

-- +goose Down
ALTER TABLE api_keys DROP COLUMN expires_at;
