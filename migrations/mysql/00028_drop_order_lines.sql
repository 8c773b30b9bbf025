-- +goose Up
-- Each order has its lines in the column order_lines of the table orders. A program of an
-- earlier version writes both in one transaction, which fails from here on: its orders wait
-- in Redis until a program of this version writes them.
DROP TABLE IF EXISTS order_lines;

-- +goose Down
-- +goose StatementBegin
CREATE TABLE order_lines (
    reservation VARCHAR(64)  NOT NULL,
    sku         VARCHAR(128) NOT NULL,
    sale        VARCHAR(128) NOT NULL,
    user_id     VARCHAR(128) NOT NULL,
    quantity    BIGINT       NOT NULL,
    PRIMARY KEY (reservation, sku),
    KEY order_lines_by_user (sale, user_id, sku, quantity)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
