-- +goose Up
ALTER TABLE devices ADD COLUMN locale VARCHAR(35) NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE devices DROP COLUMN locale;
