-- +goose Up
ALTER TABLE mutes MODIFY object VARCHAR(133) NOT NULL;

-- +goose Down
ALTER TABLE mutes MODIFY object VARCHAR(128) NOT NULL;
