-- +goose Up
ALTER TABLE devices ADD COLUMN target TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE devices DROP COLUMN target;
