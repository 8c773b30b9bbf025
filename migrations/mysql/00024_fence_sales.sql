-- +goose Up
-- A program that does not compare loadings before it writes must not write: it knows the
-- items by their former name alone, and fails.
ALTER TABLE sales CHANGE items item_totals MEDIUMTEXT NOT NULL, ADD COLUMN loading VARCHAR(32) NOT NULL DEFAULT '';
