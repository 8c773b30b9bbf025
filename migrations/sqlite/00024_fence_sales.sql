-- +goose Up
-- A program that does not compare loadings before it writes must not write: it knows the
-- items by their former name alone, and fails.
ALTER TABLE sales RENAME COLUMN items TO item_totals;
ALTER TABLE sales ADD COLUMN loading TEXT NOT NULL DEFAULT '';
