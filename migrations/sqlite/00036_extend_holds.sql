-- +goose Up
ALTER TABLE sales ADD COLUMN max_hold_ms INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE sales DROP COLUMN max_hold_ms;
