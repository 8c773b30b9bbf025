package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

const pausedTopic = "com.example.paused"

// losing answers that some devices are gone, and refuses an app at times.
func losing(devices int) func(r *apnstest.Request) (apnstest.Answer, bool) {
	gone := map[string]bool{}
	for i := 3; i < devices; i += 8 {
		gone[deviceToken(i)] = true
	}
	var mu sync.Mutex
	asked := 0
	return func(r *apnstest.Request) (a apnstest.Answer, ok bool) {
		switch {
		case gone[r.Token]:
			return apnstest.Gone("Unregistered", time.Now()), true
		case r.Topic == pausedTopic:
			mu.Lock()
			defer mu.Unlock()
			asked++
			return refusal(), asked%3 != 0 // and one that is tried resumes it
		}
		return a, false
	}
}

// H1, H2: devices are dropped and taken by others, an app is paused and resumes, and messages are sent to chats while two processes are
// killed in turns. The feed tells each of these once, those of a device, an app and a chat in their order.
func TestH1_KillsLoseNoFactOfDevicesAppsAndChats(t *testing.T) {
	t.Parallel()
	n := storetest.Sized(1200, 400)
	apns := apnstest.Start(t, apnstest.Options{})
	apns.ScriptFunc(losing(n))
	vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_APP_PROBE_INTERVAL=400ms")...)
	k := newKilled(t, vars)
	first := k.now()[0]
	first.mustRegister(n)
	first.mustRegisterFor("patient", pausedTopic, n)
	chats := []string{"c0", "c1", "c2", "c3", "c4"}
	for _, chat := range chats {
		first.must(201, nil, "POST", "/v1/chats", map[string]any{"id": chat, "creator": "ann", "members": []string{"bob"}}, "Idempotency-Key", chat)
	}
	first.mustTellFacts(api.FactDeviceDropped, api.FactAppPaused, api.FactAppResumed, api.FactChatMessage)
	pace := time.NewTicker(12 * time.Second / time.Duration(n))
	defer pace.Stop()
	f := newTold()
	k.run(f, func() error {
		return spread(n, func(i int) error {
			<-pace.C
			key := fmt.Sprintf("kinds-%d", i)
			switch {
			case i%8 == 5: // another user has the phone now
				return k.insist(i, http.MethodPut, fmt.Sprintf("/v1/users/heir-%d/devices/%s", i, deviceToken(i)),
					map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "production"})
			case i%8 == 7:
				return k.insist(i, http.MethodPost, "/v1/events", greeting("patient"), "Idempotency-Key", key)
			case i%2 == 0:
				return k.insist(i, http.MethodPost, "/v1/chats/"+chats[i%5]+"/messages", map[string]string{"sender": []string{"ann", "bob"}[i/5%2], "text": "x"}, "Idempotency-Key", key)
			}
			return k.insist(i, http.MethodPost, "/v1/events", greeting(fmt.Sprintf("user-%d", i)), "Idempotency-Key", key)
		})
	})
	p := k.now()[0]
	storetest.Eventually(t, time.Minute, "nothing is left to send", func() bool { return p.depthOf("events") == 0 && p.depthOf("notifications") == 0 })
	want, lost := k.devices(n), 0
	storetest.Eventually(t, time.Minute, "all devices that are lost are told", func() bool {
		f.read(t, p, time.Second)
		lost = 0
		for key := range want {
			lost += len(f.facts[key])
		}
		return lost >= len(want)
	})
	if f.read(t, p, 2*time.Second); f.gap != 0 || len(want) < n/6 {
		t.Errorf("a gap of %d; %d devices are lost", f.gap, len(want))
	}
	t.Logf("%d kills, %d facts, %d devices lost", k.kills, len(f.ids), len(want))
	for key, reason := range want {
		var d struct{ Reason string }
		if facts := f.facts[key]; len(facts) != 1 || json.Unmarshal(facts[0].Data, &d) != nil || d.Reason != reason || facts[0].Type != api.FactDeviceDropped {
			t.Errorf("device %s was lost for %s, and is told as %v", key, reason, facts)
		}
	}
	checkChats(t, p, f, chats)
	checkPauses(t, f.facts[pausedTopic+"/production"])
}

// devices are the devices that users have lost, by what facts call them, with the reasons.
func (k *killed) devices(n int) map[string]string {
	k.t.Helper()
	lost := map[string]string{}
	for i := range n {
		var list api.DeviceList
		k.now()[0].must(200, &list, "GET", fmt.Sprintf("/v1/users/user-%d/devices", i), nil)
		switch {
		case len(list.Items) == 0 && i%8 == 5:
			lost[api.TokenDigest(deviceToken(i))] = "moved"
		case len(list.Items) > 0 && list.Items[0].State == api.DeviceDropped:
			lost[api.TokenDigest(list.Items[0].Token)] = list.Items[0].Reason
		}
	}
	return lost
}

// checkChats compares the facts of chats with their messages.
func checkChats(t *testing.T, p *program, f *told, chats []string) {
	t.Helper()
	for _, chat := range chats {
		var page api.ChatMessages
		p.must(200, &page, "GET", "/v1/chats/"+chat+"/messages?user=ann&limit=500", nil)
		var got, want []string
		for _, m := range page.Items {
			want = append(want, fmt.Sprint(m.ID, m.Sender))
		}
		for _, one := range f.facts[chat] {
			var d struct {
				ID     int64
				Sender string
			}
			storetest.Must(t, json.Unmarshal(one.Data, &d))
			got = append(got, fmt.Sprint(d.ID, d.Sender))
		}
		if len(want) < 10 || !slices.Equal(got, want) {
			t.Errorf("chat %s: told %v, want %v", chat, got, want)
		}
	}
}

// checkPauses checks that pauses and their ends follow each other.
func checkPauses(t *testing.T, facts []api.Fact) {
	t.Helper()
	for i, one := range facts {
		if want := []string{api.FactAppPaused, api.FactAppResumed}[i%2]; one.Type != want {
			t.Errorf("fact %d of the app is %s, want %s", i, one.Type, want)
		}
	}
	if len(facts) < 2 {
		t.Errorf("the app is told %d times", len(facts))
	}
}
