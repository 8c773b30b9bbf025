package fanfare

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
)

// ChatEvent is an event of a user's chats. One of Message, Redaction, Gap, Read and Typing is set.
type ChatEvent struct {
	ID        string // for StreamOptions.LastEventID
	Message   *Message
	Redaction *Redaction
	Gap       *Gap
	Read      *Read
	Typing    *Typing
}

// Read says that a member of a chat has acknowledged the messages up to Acked.
type Read struct {
	Chat  string `json:"chat"`
	User  string `json:"user"`
	Acked int64  `json:"acked"`
}

// Typing says that another member of a chat types.
type Typing struct {
	Chat string `json:"chat"`
	User string `json:"user"`
}

// Redaction says that a message that was sent before lost its text and data.
type Redaction struct {
	Chat string `json:"chat"`
	ID   int64  `json:"id"`
}

// Gap says that messages of a chat before FirstID are no longer kept, so that the user misses them. An Epoch that
// is new to the reader says that the chat began again.
type Gap struct {
	Chat    string `json:"chat"`
	FirstID int64  `json:"first_id"`
	Epoch   string `json:"epoch"`
}

// StreamMessages reads the messages of all chats of a user, from what the user has acknowledged on, or from where
// LastEventID left off. Reconnects lose and repeat nothing within the loop, unless a Gap says so: messages from its FirstID
// on follow. See Stream for what ends it.
func (c *Client) StreamMessages(ctx context.Context, user string, o StreamOptions) iter.Seq2[ChatEvent, error] {
	return decoded(c.Stream(ctx, Path("v1", "users", user, "messages", "stream"), o), func(e StreamEvent) (out ChatEvent, known bool, err error) {
		out.ID = e.ID
		switch e.Name {
		case "message":
			err = json.Unmarshal(e.Data, &out.Message)
		case "redacted":
			err = json.Unmarshal(e.Data, &out.Redaction)
		case "gap":
			err = json.Unmarshal(e.Data, &out.Gap)
		case "read":
			err = json.Unmarshal(e.Data, &out.Read)
		case "typing":
			err = json.Unmarshal(e.Data, &out.Typing)
		default:
			return out, false, nil
		}
		return out, true, err
	})
}

// Availability is what can be reserved in a sale.
type Availability struct {
	Available map[string]int64 `json:"available"` // by sku
	State     string           `json:"state"`     // upcoming, open, sold_out or ended
}

// StreamSale reads what is available in a sale: first the present state, then changes, and the present state again
// after each reconnect. See Stream for what ends it.
func (c *Client) StreamSale(ctx context.Context, sale string, o StreamOptions) iter.Seq2[Availability, error] {
	return decoded(c.Stream(ctx, Path("v1", "sales", sale, "stream"), o), func(e StreamEvent) (out Availability, known bool, err error) {
		if e.Name != "stock" {
			return out, false, nil
		}
		err = json.Unmarshal(e.Data, &out)
		return out, true, err
	})
}

// decoded reads the data of events. Events that a later version of the server may send are left out.
func decoded[T any](events iter.Seq2[StreamEvent, error], read func(StreamEvent) (T, bool, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for event, err := range events {
			var out T
			known := true
			if err == nil {
				out, known, err = read(event)
				if err != nil {
					err = fmt.Errorf("fanfare: read %s: %w", event.Name, err)
				}
			}
			if known && !yield(out, err) || err != nil {
				return
			}
		}
	}
}
