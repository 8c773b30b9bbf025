package fanfare

import (
	"context"
	"net/http"
	"time"
)

// NewSale is a sale to be made or changed.
type NewSale struct {
	Items        []Stock   `json:"items"`
	StartsAt     time.Time `json:"starts_at"`
	EndsAt       time.Time `json:"ends_at"`
	PerUserLimit *int64    `json:"per_user_limit,omitempty"` // units that a user may hold and buy; absent: any
	HoldMS       *int64    `json:"hold_ms,omitempty"`        // 600,000 by default; 0 sells at once
	MaxHoldMS    *int64    `json:"max_hold_ms,omitempty"`
	IdleMS       *int64    `json:"idle_ms,omitempty"`
	Partitions   *int64    `json:"partitions,omitempty"`
}

// Stock is how many units of a sku a sale has.
type Stock struct {
	SKU   string `json:"sku"`
	Stock int64  `json:"stock"`
	LowAt *int64 `json:"low_at,omitempty"` // available units at which the fact stock.below is told; absent: none
}

// Sale is a sale as it stands.
type Sale struct {
	ID           string      `json:"id"`
	State        string      `json:"state"` // upcoming, open, sold_out or ended
	Items        []SaleStock `json:"items"`
	StartsAt     time.Time   `json:"starts_at"`
	EndsAt       time.Time   `json:"ends_at"`
	PerUserLimit *int64      `json:"per_user_limit"`
	HoldMS       int64       `json:"hold_ms"`
	MaxHoldMS    *int64      `json:"max_hold_ms"`
	IdleMS       *int64      `json:"idle_ms"`
	Partitions   int64       `json:"partitions"`
	Version      int64       `json:"version"` // counts changes of the settings
}

// SaleStock is what became of the units of a sku; available, held and sold add up to the total.
type SaleStock struct {
	SKU       string `json:"sku"`
	Total     int64  `json:"total"`
	Available int64  `json:"available"`
	Held      int64  `json:"held"`
	Sold      int64  `json:"sold"`
	LowAt     *int64 `json:"low_at"`
}

// Line is some units of a sku.
type Line struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"` // 1 to 1,000
}

// Reservation holds units for a user until they are confirmed, released, or the hold expires.
type Reservation struct {
	ID        string    `json:"id"`
	User      string    `json:"user"`
	Lines     []Line    `json:"lines"`
	State     string    `json:"state"` // held, sold, released or expired
	ExpiresAt time.Time `json:"expires_at"`
}

// PutSale makes a sale, or changes it with IfMatch. Without that an existing sale with other content is the
// problem conflict.
func (c *Client) PutSale(ctx context.Context, sale string, n NewSale, s ...Setting) (now Sale, err error) {
	err = c.Call(ctx, http.MethodPut, Path("v1", "sales", sale), n, &now, s...)
	return now, err
}

// GetSale reads a sale.
func (c *Client) GetSale(ctx context.Context, sale string, s ...Setting) (now Sale, err error) {
	err = c.Call(ctx, http.MethodGet, Path("v1", "sales", sale), nil, &now, s...)
	return now, err
}

// Reserve takes 1 to 20 lines, all or none. Its problems are sold_out, limit_reached, not_started and ended. With a
// user token the user may be "".
func (c *Client) Reserve(ctx context.Context, sale, user string, lines []Line, s ...Setting) (made Reservation, err error) {
	body := struct {
		User  string `json:"user,omitempty"`
		Lines []Line `json:"lines"`
	}{user, lines}
	err = c.Call(ctx, http.MethodPost, Path("v1", "sales", sale, "reservations"), body, &made, s...)
	return made, err
}

// ConfirmReservation sells what is held. Once more has the same answer, and what is no longer held is the
// problem not_held.
func (c *Client) ConfirmReservation(ctx context.Context, sale, id string, s ...Setting) (Reservation, error) {
	return c.endReservation(ctx, sale, id, "confirm", s)
}

// ReleaseReservation gives back what is held, once.
func (c *Client) ReleaseReservation(ctx context.Context, sale, id string, s ...Setting) (Reservation, error) {
	return c.endReservation(ctx, sale, id, "release", s)
}

func (c *Client) endReservation(ctx context.Context, sale, id, how string, s []Setting) (now Reservation, err error) {
	err = c.Call(ctx, http.MethodPost, Path("v1", "sales", sale, "reservations", id, how), nil, &now, s...)
	return now, err
}
