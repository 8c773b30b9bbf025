-- +goose Up
ALTER TABLE devices MODIFY token VARCHAR(512) NOT NULL;
