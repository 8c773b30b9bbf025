-- +goose Up
SELECT 1; -- SQLite's texts have no bound
