-- +goose Up
-- +goose StatementBegin
CREATE TABLE order_lines (
    reservation TEXT    NOT NULL,
    sku         TEXT    NOT NULL,
    sale        TEXT    NOT NULL,
    user_id     TEXT    NOT NULL,
    quantity    INTEGER NOT NULL,
    PRIMARY KEY (reservation, sku)
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX order_lines_by_user ON order_lines (sale, user_id, sku, quantity);
