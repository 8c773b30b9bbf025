-- +goose Up
ALTER TABLE outbox MODIFY subject VARCHAR(512) NOT NULL;

-- +goose Down
ALTER TABLE outbox MODIFY subject VARCHAR(255) NOT NULL;
