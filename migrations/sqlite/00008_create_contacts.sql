-- +goose Up
-- +goose StatementBegin
CREATE TABLE contacts (
    owner        TEXT    NOT NULL,
    contact      TEXT    NOT NULL,
    relationship TEXT    NOT NULL,
    version      INTEGER NOT NULL,
    deleted      BOOLEAN NOT NULL DEFAULT FALSE,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (owner, contact)
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX contacts_by_contact ON contacts (contact, deleted, owner);
