package handlers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// C8: one user who sends long messages that nobody acknowledges does not fill Redis, and so nobody
// else is refused.
func TestC8_OneUserDoesNotFillRedis(t *testing.T) {
	t.Parallel()
	mib := storetest.Sized(150, 50)
	server := storetest.Redis(t, "--maxmemory", fmt.Sprint(mib<<20))
	w := setupOn(t, storetest.Open(t, server.URL()))
	w.mustChat("many", "eve", "silent")
	w.mustChat("other", "ann", "bob")
	token := w.mustToken("eve")
	body := `{"text":"` + strings.Repeat("😀", api.MaxMessageText) + `"}`
	messages := 64 * mib // their texts take all of Redis
	storetest.AtOnce(t, 16, func(ctx context.Context, _ int) error {
		for range messages / 16 {
			a, err := w.try(call{method: "POST", path: "/v1/chats/many/messages", body: body}.with(token))
			if err != nil || a.status != 201 {
				return fmt.Errorf("%d %s, %w", a.status, a.body, err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	})
	w.post("/v1/chats/other/messages", `{"sender":"ann","text":"hi"}`).wants(t, 201, `{"id":1,"sent_at":"*"}`)
	info := w.get("/v1/chats/many").body
	if want := fmt.Sprintf(`"last_id":%d`, messages); !strings.Contains(info, want) {
		t.Errorf("the chat is %s", info)
	}
	first := messages + 1 - (8<<20)/(4*api.MaxMessageText) // as many as 8 MiB have room for
	if want := fmt.Sprintf(`"first_id":%d`, first); !strings.Contains(info, want) {
		t.Errorf("the chat is %s, want %s", info, want)
	}
	if reading := w.db.Reading(); reading == nil || reading.Used > 0.5 {
		t.Errorf("Redis is full to %+v", reading)
	}
	gap := w.get("/v1/chats/many/messages?user=silent&after=5&limit=1").body
	if !strings.Contains(gap, `"gap":true`) {
		t.Errorf("the reader is not told of the gap: %.300s", gap)
	}
}
