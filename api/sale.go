package api

import (
	"cmp"
	"time"
)

// The limits of sales.
const (
	MaxStock       = 1<<53 - 1 // units of one sku: the largest whole number of a Lua script
	MaxPartitions  = 64        // partitions of a sale
	DefaultHold    = 10 * time.Minute
	MaxUserTries   = 10   // reservation attempts of one user a second
	DefaultSaleRun = 1024 // FANFARE_SALE_MAX_IN_FLIGHT
)

// SaleState says whether reservations are possible.
type SaleState string

// The states of a sale, by Redis' clock. A sale is SaleSoldOut while no unit of any sku is available.
const (
	SaleUpcoming SaleState = "upcoming"
	SaleOpen     SaleState = "open"
	SaleSoldOut  SaleState = "sold_out"
	SaleEnded    SaleState = "ended"
)

// ReservationState says how far a reservation has come.
type ReservationState string

// The states of a reservation. Only a held reservation can change.
const (
	ReservationHeld     ReservationState = "held"
	ReservationSold     ReservationState = "sold"
	ReservationReleased ReservationState = "released"
	ReservationExpired  ReservationState = "expired"
)

// SaleRequest is the body of PUT /v1/sales/{sale}: the whole sale. A Sale, as GET gives it, is such a
// body too, changed or not.
type SaleRequest struct {
	Items []SaleStock `json:"items" validate:"required,min=1,max=100,dive"`
	// The window is [starts_at, ends_at) by Redis' clock.
	StartsAt *Time `json:"starts_at" validate:"required" swaggertype:"string" format:"date-time" example:"2026-12-01T12:00:00.000Z"`
	EndsAt   *Time `json:"ends_at" validate:"required" swaggertype:"string" format:"date-time" example:"2026-12-01T13:00:00.000Z"`
	// PerUserLimit is how many units one user may hold and buy in all; absent: no limit.
	PerUserLimit *int64 `json:"per_user_limit,omitempty" validate:"omitnil,min=1,max=9007199254740991" extensions:"x-nullable" example:"2"`
	// HoldMS is how long a reservation waits for its confirmation, in ms; 0: it is sold at once. Default: 10 minutes.
	HoldMS *int64 `json:"hold_ms,omitempty" validate:"omitnil,min=0,max=2592000000" default:"600000" example:"600000"`
	// MaxHoldMS is the longest time, in ms, from the making of a reservation to the end of its hold, if
	// the hold is extended; at least HoldMS. Absent: holds cannot be extended.
	MaxHoldMS *int64 `json:"max_hold_ms,omitempty" validate:"omitnil,min=1,max=2592000000" extensions:"x-nullable" example:"1800000"`
	// IdleMS ends the sale if nobody reserves for this time, in ms; absent: never.
	IdleMS *int64 `json:"idle_ms,omitempty" validate:"omitnil,min=1,max=2592000000" extensions:"x-nullable"`
	// Partitions is the number of Redis slots over which a busy sale is spread; it cannot change.
	Partitions *int64 `json:"partitions,omitempty" validate:"omitnil,min=1,max=64" default:"1" example:"1"`

	// ID, if it is given, must be that of the path. The others have no effect.
	ID         string    `json:"id,omitempty" validate:"omitempty,identifier" example:"spring"`
	State      SaleState `json:"state,omitempty" enums:"upcoming,open,sold_out,ended"`
	Version    int64     `json:"version,omitempty" example:"1"`
	Consistent *bool     `json:"consistent,omitempty"`
}

// SaleStock is one sku of a SaleRequest. Stock or Total is given, or both with the same number: the
// units of the sku, including those that are held or sold. The other numbers have no effect.
type SaleStock struct {
	SKU   string `json:"sku" validate:"required,identifier" example:"sneaker:42"`
	Stock *int64 `json:"stock,omitempty" validate:"omitnil,min=0,max=9007199254740991" example:"100"`
	Total *int64 `json:"total,omitempty" validate:"omitnil,min=0,max=9007199254740991" example:"100"`
	// LowAt is the number of available units at which the fact stock.below is told; absent: it is not.
	LowAt     *int64 `json:"low_at,omitempty" validate:"omitnil,min=0,max=9007199254740991" extensions:"x-nullable" example:"10"`
	Available int64  `json:"available,omitempty" example:"97"`
	Held      int64  `json:"held,omitempty" example:"2"`
	Sold      int64  `json:"sold,omitempty" example:"1"`
}

// Units is the sku's total. The request has been validated.
func (s *SaleStock) Units() int64 { return *cmp.Or(s.Stock, s.Total) }

// Sale is the present state of a sale, with all its settings: one that is not set is null. For every
// item, available + held + sold = total.
type Sale struct {
	ID           string     `json:"id" example:"spring"`
	State        SaleState  `json:"state" enums:"upcoming,open,sold_out,ended"`
	Items        []SaleItem `json:"items"`
	StartsAt     Time       `json:"starts_at" swaggertype:"string" format:"date-time"`
	EndsAt       Time       `json:"ends_at" swaggertype:"string" format:"date-time"`
	PerUserLimit *int64     `json:"per_user_limit" extensions:"x-nullable"`
	HoldMS       int64      `json:"hold_ms" example:"600000"`
	MaxHoldMS    *int64     `json:"max_hold_ms" extensions:"x-nullable"`
	IdleMS       *int64     `json:"idle_ms" extensions:"x-nullable"`
	Partitions   int64      `json:"partitions" example:"1"`
	// Version counts the changes by PUT and by stock calls. The ETag contains it.
	Version int64 `json:"version" example:"1"`
	// Consistent is set only for a sale of several partitions. It is false if units moved between
	// the partitions at every try to add them up.
	Consistent *bool `json:"consistent,omitempty"`
}

// SaleItem is one sku of a Sale.
type SaleItem struct {
	SKU       string `json:"sku" example:"sneaker:42"`
	Total     int64  `json:"total" example:"100"`
	Available int64  `json:"available" example:"97"`
	Held      int64  `json:"held" example:"2"`
	Sold      int64  `json:"sold" example:"1"`
	// LowAt is the number of available units at which the fact stock.below is told; null: it is not.
	LowAt *int64 `json:"low_at" extensions:"x-nullable" example:"10"`
}

// ListedSale is a sale in a list. Its stock is in the answer of GET /v1/sales/{sale}.
type ListedSale struct {
	ID       string    `json:"id" example:"spring"`
	State    SaleState `json:"state" enums:"upcoming,open,sold_out,ended"`
	StartsAt Time      `json:"starts_at" swaggertype:"string" format:"date-time"`
	EndsAt   Time      `json:"ends_at" swaggertype:"string" format:"date-time"`
	Version  int64     `json:"version" example:"1"`
}

// SaleList is the answer of GET /v1/sales.
type SaleList struct {
	Items []ListedSale `json:"items"`
	Next  string       `json:"next,omitempty"`
}

// StockRequest is the body of POST /v1/sales/{sale}/stock.
type StockRequest struct {
	SKU string `json:"sku" validate:"required,identifier" example:"sneaker:42"`
	// Delta is added to the total; a negative delta takes units away.
	Delta *int64 `json:"delta" validate:"required,min=-9007199254740991,max=9007199254740991" example:"50"`
}

// Line is a quantity of one sku.
type Line struct {
	SKU      string `json:"sku" validate:"required,identifier" example:"sneaker:42"`
	Quantity int64  `json:"quantity" validate:"min=1,max=1000" example:"1"`
}

// ReservationRequest is the body of POST /v1/sales/{sale}/reservations.
type ReservationRequest struct {
	// User may be left out with a user token: then it is the token's user.
	User  string `json:"user" validate:"required,identifier" subject:"self" example:"alice"`
	Lines []Line `json:"lines" validate:"required,min=1,max=20,dive"`
}

// ExtendRequest is the body of POST /v1/sales/{sale}/reservations/{id}/extend.
type ExtendRequest struct {
	// HoldMS is how long the hold shall last from now, in ms.
	HoldMS *int64 `json:"hold_ms" validate:"required,min=1,max=2592000000" example:"600000"`
}

// Reservation is a user's claim on units. ExpiresAt is when a held reservation expires; a reservation
// that was sold at once has none.
type Reservation struct {
	ID        string           `json:"id"`
	User      string           `json:"user" example:"alice"`
	Lines     []Line           `json:"lines"`
	State     ReservationState `json:"state" enums:"held,sold,released,expired"`
	ExpiresAt *Time            `json:"expires_at,omitempty" swaggertype:"string" format:"date-time"`
}

// ReservationList is the answer of GET /v1/sales/{sale}/reservations.
type ReservationList struct {
	Items []Reservation `json:"items"`
	Next  string        `json:"next,omitempty"`
}

// Order is a sold reservation on record.
type Order struct {
	Reservation string `json:"reservation"`
	User        string `json:"user" example:"alice"`
	Lines       []Line `json:"lines"`
	CreatedAt   Time   `json:"created_at" swaggertype:"string" format:"date-time"`
}

// OrderList is the answer of GET /v1/sales/{sale}/orders.
type OrderList struct {
	Items []Order `json:"items"`
	Next  string  `json:"next,omitempty"`
}

// Availability is the data of a `stock` event: the available units of each sku.
type Availability struct {
	Available map[string]int64 `json:"available"`
	State     SaleState        `json:"state" enums:"upcoming,open,sold_out,ended"`
}

// StockEvents lists the events of GET /v1/sales/{sale}/stream, in the way of StreamEvents.
type StockEvents struct {
	Stock *Availability `json:"stock"`
	Bye   *Bye          `json:"bye"`
}

// SalesStats has the number of confirmed reservations whose orders are not in SQL yet, the age of the
// oldest, and the units that were sold beyond the total, by sale and sku, after a fail-over lost
// writes. UnreadSales is the number of sales that could not be read; the figures do not include them.
type SalesStats struct {
	WaitingOrders int64                       `json:"waiting_orders"`
	LagMS         int64                       `json:"lag_ms"`
	Oversold      map[string]map[string]int64 `json:"oversold,omitempty"`
	UnreadSales   int64                       `json:"unread_sales,omitempty"`
	Open          int64                       `json:"-"` // sales that are open for reservations; only in the metrics
}
