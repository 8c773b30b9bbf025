-- +goose Up
-- +goose StatementBegin
CREATE TABLE contacts (
    owner        VARCHAR(128) NOT NULL,
    contact      VARCHAR(128) NOT NULL,
    relationship VARCHAR(16)  NOT NULL,
    version      BIGINT       NOT NULL,
    deleted      BOOLEAN      NOT NULL DEFAULT FALSE,
    created_at   BIGINT       NOT NULL,
    updated_at   BIGINT       NOT NULL,
    PRIMARY KEY (owner, contact),
    KEY contacts_by_contact (contact, deleted, owner)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
