-- +goose Up
-- +goose StatementBegin
CREATE TABLE orders (
    reservation VARCHAR(64)  NOT NULL PRIMARY KEY,
    sale        VARCHAR(128) NOT NULL,
    user_id     VARCHAR(128) NOT NULL,
    order_lines TEXT         NOT NULL,
    created_at  BIGINT       NOT NULL,
    KEY orders_by_age (sale, created_at, reservation)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
