-- +goose Up
ALTER TABLE outbox MODIFY subject VARCHAR(512) NOT NULL;
