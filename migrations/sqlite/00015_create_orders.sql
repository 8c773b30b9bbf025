-- +goose Up
-- +goose StatementBegin
CREATE TABLE orders (
    reservation TEXT    NOT NULL PRIMARY KEY,
    sale        TEXT    NOT NULL,
    user_id     TEXT    NOT NULL,
    order_lines TEXT    NOT NULL,
    created_at  INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX orders_by_age ON orders (sale, created_at, reservation);
