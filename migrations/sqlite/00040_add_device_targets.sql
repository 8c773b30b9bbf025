-- +goose Up
ALTER TABLE devices ADD COLUMN target TEXT NOT NULL DEFAULT '';
