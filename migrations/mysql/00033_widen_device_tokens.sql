-- +goose Up
ALTER TABLE devices MODIFY token VARCHAR(512) NOT NULL;

-- +goose Down
ALTER TABLE devices MODIFY token VARCHAR(200) NOT NULL;
