-- +goose Up
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
