-- +goose Up
CREATE INDEX devices_by_state ON devices (state, user_id);
