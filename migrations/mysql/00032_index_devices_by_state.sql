-- +goose Up
CREATE INDEX devices_by_state ON devices (state, user_id);

-- +goose Down
DROP INDEX devices_by_state ON devices;
