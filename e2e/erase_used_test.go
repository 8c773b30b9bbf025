package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/chat"
	"fanfare/store/storetest"
)

// E6, E7: an erasure ends although the name goes on being used, 50 times a second and with a fact in an outbox at any time. Facts of what
// was before the call are gone, and the operation tells their number.
func TestE7_AnErasureEndsAlthoughTheNameIsUsed(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	p := mustServeMany(t, 1, quick("FANFARE_REDIS_URL="+server.URL(), "FANFARE_DATABASE_URL="+storetest.SQLite(t))...)[0]
	p.mustTellFacts(api.FactChatMessage)
	send := func(chat string) {
		p.must(201, nil, "POST", "/v1/chats/"+chat+"/messages", map[string]string{"sender": eraseMe, "text": "hello"})
	}
	const old = 30
	p.must(201, nil, "POST", "/v1/chats", map[string]any{"id": "old", "creator": eraseMe, "members": []string{"bob"}})
	for range old {
		send("old")
	}
	told := func() (old, used int) {
		var list api.FactList
		for next := ""; ; next = list.Next {
			p.must(200, &list, "GET", "/v1/facts?limit=1000&after="+next, nil)
			for _, f := range list.Items {
				switch {
				case !strings.Contains(string(f.Data), eraseMe):
				case f.Key == "old":
					old++
				default:
					used++
				}
			}
			if len(list.Items) == 0 {
				return old, used
			}
		}
	}
	storetest.Eventually(t, time.Minute, "the messages are told", func() bool { n, _ := told(); return n == old })
	var begun operation
	p.must(202, &begun, "DELETE", "/v1/users/"+eraseMe, nil)

	_, stuck := chat.FactOutbox(999) // nobody moves what it has, as if the master of its lane were away: so each pass finds a fact in it
	ctx, stop := context.WithCancel(t.Context())
	var uses sync.WaitGroup
	defer uses.Wait()
	defer stop()
	p.must(201, nil, "POST", "/v1/chats", map[string]any{"id": "new", "creator": eraseMe, "members": []string{"bob"}})
	uses.Go(func() {
		use := time.NewTicker(20 * time.Millisecond)
		defer use.Stop()
		data, _ := json.Marshal(map[string]any{"chat": "left", "id": 1, "sender": eraseMe})
		for ctx.Err() == nil {
			_ = server.Client().XAdd(ctx, &redis.XAddArgs{Stream: stuck, Values: []string{"t", api.FactChatMessage, "k", "left", "a", "", "d", string(data)}}).Err()
			_, _, _ = p.try("POST", "/v1/chats/new/messages", map[string]string{"sender": eraseMe, "text": "still here"})
			<-use.C
		}
	})
	began := time.Now()
	got := p.mustErased(t, begun.ID)
	t.Logf("the user is erased after %v", time.Since(began))
	if got.Removed["facts"] != old {
		t.Errorf("%+v", got)
	}
	storetest.Eventually(t, time.Minute, "the name is used and told of", func() bool { _, used := told(); return used > 0 })
	if n, _ := told(); n > 0 {
		t.Errorf("%d facts of what was before are left", n)
	}
}
