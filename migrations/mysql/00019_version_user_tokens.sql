-- +goose Up
INSERT INTO versions (name, version) VALUES ('user_tokens', 0);
