-- +goose Up
-- Each order has its lines in the column order_lines of the table orders. A program of an
-- earlier version writes both in one transaction, which fails from here on: its orders wait
-- in Redis until a program of this version writes them.
DROP TABLE IF EXISTS order_lines;

-- +goose Down
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
