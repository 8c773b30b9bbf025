// Command client does a little of everything with a client that oapi-codegen made of
// the OpenAPI document: `make clients` generates it, and runs this on a server.
// Usage: client http://127.0.0.1:8080
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"client/fanfare"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
	fmt.Println("the client in Go did all it tried")
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: client <address of a server>")
	}
	c, err := fanfare.NewClientWithResponses(args[0])
	if err != nil {
		return err
	}
	for _, part := range []func(context.Context, *fanfare.ClientWithResponses) error{push, browsers, topics, movingIn, chat, sale, erase, keys} {
		if err := part(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// answer is what the generated types of answers have in common.
type answer interface {
	StatusCode() int
	GetBody() []byte
}

// must wants an answer of a status, and tells otherwise what came instead.
func must(want int, a answer, err error) error {
	if err == nil && a.StatusCode() != want {
		err = fmt.Errorf("%T: %d, want %d: %s", a, a.StatusCode(), want, a.GetBody())
	}
	return err
}

func push(ctx context.Context, c *fanfare.ClientWithResponses) error {
	device, err := c.PutDeviceWithResponse(ctx, "go-bob", strings.Repeat("60", 32), fanfare.DeviceRequest{
		Platform: fanfare.DeviceRequestPlatformApns, Topic: "com.example.app", Environment: new(fanfare.EnvSandbox), Locale: new("de-AT"),
	})
	if err := must(http.StatusCreated, device, err); err != nil {
		return err
	}
	if locale := device.JSON201.Locale; locale == nil || *locale != "de-AT" {
		return fmt.Errorf("registered without the locale: %s", device.Body)
	}
	if err := eventType(ctx, c, "go-photo.shared"); err != nil {
		return err
	}
	return tell(ctx, c, "go-photo-1", fanfare.Audience{Users: &[]string{"go-bob"}})
}

// eventType makes an event type once. Somebody who made it before would be told so, with what is there.
func eventType(ctx context.Context, c *fanfare.ClientWithResponses, name string) error {
	absent := &fanfare.PutEventTypeParams{IfNoneMatch: new("*")}
	made, err := c.PutEventTypeWithResponse(ctx, name, absent, fanfare.EventTypeRequest{Title: new("New photo")})
	if err := must(http.StatusCreated, made, err); err != nil {
		return err
	}
	again, err := c.PutEventTypeWithResponse(ctx, name, absent, fanfare.EventTypeRequest{Title: new("Other")})
	if err := must(http.StatusPreconditionFailed, again, err); err != nil {
		return err
	}
	if p := again.ApplicationproblemJSON412; p.Code != fanfare.CodeVersionMismatch || p.Retryable || p.EventType.Revision != 1 {
		return fmt.Errorf("refused with %s", again.Body)
	}
	return nil
}

// topics has the user of push join an open topic and posts an event to it.
func topics(ctx context.Context, c *fanfare.ClientWithResponses) error {
	opened, err := c.PutTopicWithResponse(ctx, "go-news", fanfare.TopicRequest{Open: true})
	if err := must(http.StatusNoContent, opened, err); err != nil {
		return err
	}
	joined, err := c.JoinTopicWithResponse(ctx, "go-bob", "go-news")
	if err := must(http.StatusNoContent, joined, err); err != nil {
		return err
	}
	changed, err := c.ChangeTopicWithResponse(ctx, "go-news", nil, fanfare.TopicUsersRequest{Add: &[]string{"go-carol"}, Remove: &[]string{"go-dave"}})
	if err := must(http.StatusNoContent, changed, err); err != nil {
		return err
	}
	members, err := c.ListTopicUsersWithResponse(ctx, "go-news", nil)
	if err := must(http.StatusOK, members, err); err != nil {
		return err
	}
	if items := members.JSON200.Items; len(items) != 2 || items[0].User != "go-bob" || items[1].User != "go-carol" {
		return fmt.Errorf("members: %s", members.Body)
	}
	left, err := c.LeaveTopicWithResponse(ctx, "go-carol", "go-news")
	if err := must(http.StatusNoContent, left, err); err != nil {
		return err
	}
	return tell(ctx, c, "go-news-1", fanfare.Audience{Topic: new("go-news")})
}

// browsers registers a browser with what its page has, and removes it.
func browsers(ctx context.Context, c *fanfare.ClientWithResponses) error {
	added, err := c.PostDeviceWithResponse(ctx, "go-page", &fanfare.PostDeviceParams{IdempotencyKey: new("go-browser-1")}, fanfare.BrowserRequest{
		Platform: fanfare.BrowserRequestPlatformWebpush, Topic: "shop", Subscription: fanfare.Subscription{
			Endpoint: "https://fcm.googleapis.com/fcm/send/go", Keys: fanfare.SubscriptionKeys{
				P256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4", Auth: "BTBZMqHH6r4Tts7J_aSIgg",
			},
		},
	})
	if err := must(http.StatusCreated, added, err); err != nil {
		return err
	}
	if origin := added.JSON201.Origin; origin == nil || *origin != "https://fcm.googleapis.com" {
		return fmt.Errorf("registered as %s", added.Body)
	}
	removed, err := c.DeleteDeviceWithResponse(ctx, "go-page", added.JSON201.Token)
	if err := must(http.StatusNoContent, removed, err); err != nil {
		return err
	}
	key, err := c.GetPushKeyWithResponse(ctx, "shop")
	return must(http.StatusNotFound, key, err)
}

// movingIn sends devices and contacts in batches, and one that is refused.
func movingIn(ctx context.Context, c *fanfare.ClientWithResponses) error {
	devices := fanfare.DeviceBatchRequest{Devices: []fanfare.DeviceEntry{{
		User: "go-erin", Token: new(strings.Repeat("61", 32)), Platform: fanfare.DeviceEntryPlatformApns, Topic: "com.example.app", Environment: new(fanfare.EnvSandbox),
	}}}
	taken, err := c.PutDevicesWithResponse(ctx, &fanfare.PutDevicesParams{IdempotencyKey: new("go-devices-1")}, devices)
	if err := must(http.StatusNoContent, taken, err); err != nil {
		return err
	}
	devices.Devices = append(devices.Devices, devices.Devices[0])
	refused, err := c.PutDevicesWithResponse(ctx, nil, devices)
	if err := must(http.StatusUnprocessableEntity, refused, err); err != nil {
		return err
	}
	if bad := *refused.ApplicationproblemJSON422.Errors; len(bad) != 1 || bad[0].Field != "devices[1].token" {
		return fmt.Errorf("refused with %s", refused.Body)
	}
	added, err := c.PutContactsWithResponse(ctx, "go-erin", nil, fanfare.ContactBatchRequest{Contacts: []fanfare.Contact{
		{Contact: "go-bob", Relationship: fanfare.RelationFriend}, {Contact: "go-carol", Relationship: fanfare.RelationFamily},
	}})
	if err := must(http.StatusNoContent, added, err); err != nil {
		return err
	}
	listed, err := c.ListContactsWithResponse(ctx, "go-erin", nil)
	if err := must(http.StatusOK, listed, err); err != nil {
		return err
	}
	if items := listed.JSON200.Items; len(items) != 2 || items[1].Contact != "go-carol" {
		return fmt.Errorf("contacts: %s", listed.Body)
	}
	return tell(ctx, c, "go-photo-2", fanfare.Audience{Users: &[]string{"go-erin"}})
}

// erase erases a user and waits until that is done.
func erase(ctx context.Context, c *fanfare.ClientWithResponses) error {
	begun, err := c.EraseUserWithResponse(ctx, "go-carol")
	if err := must(http.StatusAccepted, begun, err); err != nil {
		return err
	}
	for {
		operation, err := c.GetOperationWithResponse(ctx, begun.JSON202.Id)
		if err := must(http.StatusOK, operation, err); err != nil {
			return err
		}
		if operation.JSON200.State == "done" {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// keys makes the first key of the server, after which every call needs one, and revokes it.
func keys(ctx context.Context, c *fanfare.ClientWithResponses) error {
	made, err := c.PostKeyWithResponse(ctx, fanfare.KeyRequest{Name: "go", Scopes: []fanfare.Scope{fanfare.ScopeAdmin}})
	if err := must(http.StatusCreated, made, err); err != nil {
		return err
	}
	bearer := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+made.JSON201.Key)
		return nil
	}
	listed, err := c.ListKeysWithResponse(ctx, nil, bearer)
	if err := must(http.StatusOK, listed, err); err != nil {
		return err
	}
	if items := listed.JSON200.Items; len(items) != 1 || items[0].Id != made.JSON201.Id || items[0].RevokedAt != nil {
		return fmt.Errorf("keys: %s", listed.Body)
	}
	ended, err := c.DeleteKeyWithResponse(ctx, made.JSON201.Id, bearer)
	if err := must(http.StatusNoContent, ended, err); err != nil {
		return err
	}
	listed, err = c.ListKeysWithResponse(ctx, nil, bearer)
	return must(http.StatusUnauthorized, listed, err)
}

// tell posts an event to an audience with one device and waits until it is delivered.
func tell(ctx context.Context, c *fanfare.ClientWithResponses, key string, audience fanfare.Audience) error {
	event, err := c.PostEventWithResponse(ctx, &fanfare.PostEventParams{IdempotencyKey: new(key)}, fanfare.EventRequest{
		Type:     "photo.shared",
		Audience: audience,
		Alert:    &fanfare.Alert{Title: new("New photo"), Body: new("alice shared Summer")},
	})
	if err := must(http.StatusAccepted, event, err); err != nil {
		return err
	}
	for {
		report, err := c.GetEventWithResponse(ctx, event.JSON202.Id)
		if err := must(http.StatusOK, report, err); err != nil {
			return err
		}
		if now := report.JSON200; now.State == fanfare.EventDone {
			if now.Delivered != 1 {
				return fmt.Errorf("the event was delivered %d times", now.Delivered)
			}
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func chat(ctx context.Context, c *fanfare.ClientWithResponses) error {
	made, err := c.CreateChatWithResponse(ctx, nil, fanfare.ChatRequest{
		Creator: "go-alice", Members: &[]string{"go-bob"}, Message: new("hello"),
	})
	if err := must(http.StatusCreated, made, err); err != nil {
		return err
	}
	chat := made.JSON201.Id
	first, err := firstMessage(ctx, c, "go-bob")
	if err != nil {
		return err
	}
	if first.Chat != chat || first.Sender != "go-alice" || first.Text != "hello" {
		return fmt.Errorf("the stream begins with %+v", first)
	}
	sent, err := c.PostMessageWithResponse(ctx, chat, nil, fanfare.ChatMessageRequest{Sender: "go-alice", Text: "look", Data: &map[string]string{"picture": "p1"}})
	if err := must(http.StatusCreated, sent, err); err != nil {
		return err
	}
	page, err := c.ListMessagesWithResponse(ctx, chat, &fanfare.ListMessagesParams{User: "go-bob", After: new(int64(sent.JSON201.Id - 1))})
	if err := must(http.StatusOK, page, err); err != nil {
		return err
	}
	if items := page.JSON200.Items; len(items) != 1 || items[0].Data == nil || (*items[0].Data)["picture"] != "p1" {
		return fmt.Errorf("messages: %s", page.Body)
	}
	redacted, err := c.DeleteMessageWithResponse(ctx, chat, sent.JSON201.Id)
	if err := must(http.StatusNoContent, redacted, err); err != nil {
		return err
	}
	page, err = c.ListMessagesWithResponse(ctx, chat, &fanfare.ListMessagesParams{User: "go-bob", After: new(sent.JSON201.Id - 1)})
	if err := must(http.StatusOK, page, err); err != nil {
		return err
	}
	if m := page.JSON200.Items[0]; m.Redacted == nil || !*m.Redacted || m.Text != "" || m.Data != nil {
		return fmt.Errorf("messages after a redaction: %s", page.Body)
	}
	acked, err := c.AckMessagesWithResponse(ctx, "go-bob", nil, fanfare.AckRequest{Acks: map[string]int64{chat: first.Id}})
	if err := must(http.StatusOK, acked, err); err != nil {
		return err
	}
	if acked.JSON200.Acked[chat] != first.Id {
		return fmt.Errorf("acknowledged: %v", acked.JSON200.Acked)
	}
	return nil
}

// firstMessage reads the first message on a user's stream. The data of an event has a
// type of its own.
func firstMessage(ctx context.Context, c *fanfare.ClientWithResponses, user string) (message fanfare.StreamMessage, err error) {
	resp, err := c.StreamMessages(ctx, user, nil)
	if err != nil {
		return message, err
	}
	defer resp.Body.Close()
	name, lines := "", bufio.NewScanner(resp.Body)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "event":
			name = value
		case field == "data" && name == string(fanfare.Message):
			return message, json.Unmarshal([]byte(value), &message)
		}
	}
	return message, fmt.Errorf("the stream (%s) ended: %w", resp.Status, lines.Err())
}

func sale(ctx context.Context, c *fanfare.ClientWithResponses) error {
	made, err := c.PutSaleWithResponse(ctx, "go-spring", nil, fanfare.SaleRequest{
		Items:    []fanfare.SaleStock{{Sku: "sneaker:42", Stock: new(int64(3))}},
		StartsAt: time.Now().Add(-time.Hour), EndsAt: time.Now().Add(time.Hour), MaxHoldMs: new(int64(1_800_000)),
	})
	if err := must(http.StatusCreated, made, err); err != nil {
		return err
	}
	lines := []fanfare.Line{{Sku: "sneaker:42", Quantity: 2}}
	reserved, err := c.PostReservationWithResponse(ctx, "go-spring", &fanfare.PostReservationParams{IdempotencyKey: new("go-alice-1")},
		fanfare.ReservationRequest{User: "go-alice", Lines: lines})
	if err := must(http.StatusCreated, reserved, err); err != nil {
		return err
	}
	refused, err := c.PostReservationWithResponse(ctx, "go-spring", nil, fanfare.ReservationRequest{User: "go-bob", Lines: lines})
	if err := must(http.StatusConflict, refused, err); err != nil {
		return err
	}
	if p := refused.ApplicationproblemJSON409; p.Code != fanfare.CodeSoldOut || !p.Retryable || (*p.Available)["sneaker:42"] != 1 {
		return fmt.Errorf("refused with %s", refused.Body)
	}
	longer, err := c.ExtendReservationWithResponse(ctx, "go-spring", reserved.JSON201.Id, nil, fanfare.ExtendRequest{HoldMs: 900_000})
	if err := must(http.StatusOK, longer, err); err != nil {
		return err
	}
	if !longer.JSON200.ExpiresAt.After(*reserved.JSON201.ExpiresAt) {
		return fmt.Errorf("extended: %s, before %s", longer.Body, reserved.Body)
	}
	sold, err := c.ConfirmReservationWithResponse(ctx, "go-spring", reserved.JSON201.Id, nil)
	if err := must(http.StatusOK, sold, err); err != nil {
		return err
	}
	if sold.JSON200.State != fanfare.ReservationSold {
		return fmt.Errorf("confirmed: %s", sold.Body)
	}
	open, err := c.ListSalesWithResponse(ctx, &fanfare.ListSalesParams{State: new(fanfare.ListSalesParamsState("open"))})
	if err := must(http.StatusOK, open, err); err != nil {
		return err
	}
	if items := open.JSON200.Items; len(items) == 0 || items[0].Id != "go-spring" {
		return fmt.Errorf("open sales: %s", open.Body)
	}
	all, err := c.ListReservationsWithResponse(ctx, "go-spring", &fanfare.ListReservationsParams{State: new(fanfare.ListReservationsParamsState("sold"))})
	if err := must(http.StatusOK, all, err); err != nil {
		return err
	}
	if items := all.JSON200.Items; len(items) != 1 || items[0].Id != reserved.JSON201.Id {
		return fmt.Errorf("sold: %s", all.Body)
	}
	kept, err := c.DeleteSaleWithResponse(ctx, "go-spring", nil)
	if err := must(http.StatusConflict, kept, err); err != nil {
		return err
	}
	if p := kept.ApplicationproblemJSON409; p.Code != fanfare.CodeSaleOpen {
		return fmt.Errorf("deleted: %s", kept.Body)
	}
	return nil
}
