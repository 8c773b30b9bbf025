-- +goose Up
ALTER TABLE devices ADD COLUMN locale TEXT NOT NULL DEFAULT '';
