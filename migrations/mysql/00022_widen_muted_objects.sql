-- +goose Up
ALTER TABLE mutes MODIFY object VARCHAR(133) NOT NULL;
