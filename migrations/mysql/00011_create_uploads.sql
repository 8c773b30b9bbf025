-- +goose Up
-- +goose StatementBegin
CREATE TABLE uploads (
    id          VARCHAR(128) NOT NULL PRIMARY KEY,
    owner       VARCHAR(128) NOT NULL,
    visibility  VARCHAR(16)  NOT NULL,
    deleted     BOOLEAN      NOT NULL DEFAULT FALSE,
    uploaded_at BIGINT       NOT NULL,
    created_at  BIGINT       NOT NULL,
    updated_at  BIGINT       NOT NULL,
    KEY uploads_newest (owner, visibility, deleted, uploaded_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
