-- +goose Up
INSERT INTO versions (name, version) VALUES ('user_tokens', 0);

-- +goose Down
DELETE FROM versions WHERE name = 'user_tokens';
