-- +goose Up
ALTER TABLE devices ADD COLUMN target VARCHAR(2304) NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE devices DROP COLUMN target;
