// Package stock is the live stock of sales.
package stock
