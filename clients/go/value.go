package fanfare

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Value is JSON with a version.
type Value struct {
	Value   json.RawMessage `json:"value"`
	Version int64           `json:"version"`
}

// NewCounter is a counter to be made or replaced.
type NewCounter struct {
	Value    int64     `json:"value"`
	Min      *int64    `json:"min,omitempty"`
	Max      *int64    `json:"max,omitempty"`
	StartsAt time.Time `json:"starts_at,omitzero"`
	EndsAt   time.Time `json:"ends_at,omitzero"`
	IdleMS   *int64    `json:"idle_ms,omitempty"` // after this time without use it goes by itself
	Local    string    `json:"local,omitempty"`   // "off" makes every refusal come from Redis
}

// Counter is a counter as it stands.
type Counter struct {
	Value    int64     `json:"value"`
	Min      *int64    `json:"min"`
	Max      *int64    `json:"max"`
	StartsAt time.Time `json:"starts_at"`
	EndsAt   time.Time `json:"ends_at"`
	IdleMS   *int64    `json:"idle_ms"`
	Local    string    `json:"local"`
}

// CounterChange is what an add did.
type CounterChange struct {
	Value   int64 `json:"value"`
	Applied int64 `json:"applied"` // less than was asked for if the add saturates
}

// PutValue stores JSON of at most 16 KiB, and returns its version. A time to live of 0 is forever. IfVersion and
// IfAbsent compare before they set.
func (c *Client) PutValue(ctx context.Context, name string, value any, ttl time.Duration, s ...Setting) (int64, error) {
	body := map[string]any{"value": value}
	if ttl > 0 {
		body["ttl_seconds"] = int64((ttl + time.Second - 1) / time.Second)
	}
	var made struct{ Version int64 }
	err := c.Call(ctx, http.MethodPut, Path("v1", "values", name), body, &made, s...)
	return made.Version, err
}

// IfVersion makes a change of a value, a sale or a webhook only if it has this version. If it has another one, the error is
// the problem version_mismatch, in which the server puts the present value, sale or webhook and its version.
func IfVersion(version int64) Setting { return IfMatch(`"` + strconv.FormatInt(version, 10) + `"`) }

// GetValue reads a value. One that does not exist is the problem not_found.
func (c *Client) GetValue(ctx context.Context, name string, s ...Setting) (v Value, err error) {
	err = c.Call(ctx, http.MethodGet, Path("v1", "values", name), nil, &v, s...)
	return v, err
}

// PutCounter makes or replaces a counter.
func (c *Client) PutCounter(ctx context.Context, name string, n NewCounter, s ...Setting) (now Counter, err error) {
	err = c.Call(ctx, http.MethodPut, Path("v1", "counters", name), n, &now, s...)
	return now, err
}

// GetCounter reads a counter.
func (c *Client) GetCounter(ctx context.Context, name string, s ...Setting) (now Counter, err error) {
	err = c.Call(ctx, http.MethodGet, Path("v1", "counters", name), nil, &now, s...)
	return now, err
}

// AddToCounter adds to a counter. An add that would leave its bounds is the problem bounds.
func (c *Client) AddToCounter(ctx context.Context, name string, delta int64, s ...Setting) (CounterChange, error) {
	return c.add(ctx, name, map[string]any{"delta": delta}, s)
}

// AddSaturating adds as much as the bounds allow.
func (c *Client) AddSaturating(ctx context.Context, name string, delta int64, s ...Setting) (CounterChange, error) {
	return c.add(ctx, name, map[string]any{"delta": delta, "saturate": true}, s)
}

func (c *Client) add(ctx context.Context, name string, body map[string]any, s []Setting) (change CounterChange, err error) {
	err = c.Call(ctx, http.MethodPost, Path("v1", "counters", name, "add"), body, &change, s...)
	return change, err
}
