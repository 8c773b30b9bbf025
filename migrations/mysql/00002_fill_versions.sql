-- +goose Up
INSERT INTO versions (name, version) VALUES ('event_types', 0), ('api_keys', 0);
