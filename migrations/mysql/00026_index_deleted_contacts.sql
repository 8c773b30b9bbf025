-- +goose Up
CREATE INDEX contacts_deleted ON contacts (deleted, updated_at);

-- +goose Down
DROP INDEX contacts_deleted ON contacts;
