-- +goose Up
-- Each order has its lines in the column order_lines of the table orders. A program of an
-- earlier version writes both in one transaction, which fails from here on: its orders wait
-- in Redis until a program of this version writes them.
DROP TABLE IF EXISTS order_lines;
