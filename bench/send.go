package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sideshow/apns2"
	apnstoken "github.com/sideshow/apns2/token"
	"golang.org/x/net/http2"

	"fanfare/api"
	"fanfare/delivery/apns"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
)

// The ids that the stand-in for APNs accepts by default.
const keyID, teamID = "KEYID12345", "TEAMID1234"

// payload is the payload of every notification of the loops, the same as fanfare's.
var payload = []byte(`{"aps":{"alert":{"title":"Hello","body":"from the benchmark"}},"event_id":"00000000000000000000000000000000","type":"greeting"}`)

// sending sends the n-th notification, with an id, and waits for its answer.
type sending func(ctx context.Context, n int, id string) error

// childSend is the child process "send". After a warm-up, unless it measures a burst, it sends for a while in a loop of many
// goroutines to the stand-in for APNs in another process. at is the directory of the stand-in's keys
// and its URL.
func childSend(ctx context.Context, which, at string, d time.Duration) sample {
	dir, url, _ := strings.Cut(at, ",")
	ca, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "AuthKey.p8")
	must(os.Setenv("SSL_CERT_FILE", ca)) // apns2 trusts what the system trusts
	s, clients := &side{callers: 512}, []sending{stageClient(url, ca, key)}
	switch which {
	case "stock":
		clients[0] = stockClient(url, key, false)
	case "stock-far", "stock-burst": // answers are late: more goroutines, and four clients with one connection each
		s.callers = 4000
		clients = made(4, func(int) sending { return stockClient(url, key, true) })
	}
	s.call = func(_ *caller, n int) {
		must(clients[n%len(clients)](ctx, n, fmt.Sprintf("%08x-0000-5000-8000-%012x", n, n)))
	}
	if which != "stock-burst" {
		s.load(ctx, d/4)
	}
	return s.load(ctx, d)
}

// stageClient sends through the push stage of fanfare.
func stageClient(url, ca, key string) sending {
	sender := apns.New(apns.Options{URL: url, CAFile: ca, KeyFile: key, KeyID: keyID, TeamID: teamID})
	must(transport.Configure(sender, "", ""))
	return func(ctx context.Context, n int, id string) error {
		a := transport.Await(ctx, sender, &transport.Notification{
			ID: id, Token: token(n % devices), Topic: apnstest.DefaultTopic,
			Environment: api.EnvProduction, PushType: api.PushAlert, Priority: 10, Payload: payload,
		})
		if a.Outcome != transport.Delivered {
			return fmt.Errorf("the stage answered %v", a.Outcome)
		}
		return nil
	}
}

// stockClient sends through apns2, over a single connection if single is set. It is unchanged
// otherwise.
func stockClient(url, key string, single bool) sending {
	client := apns2.NewTokenClient(&apnstoken.Token{AuthKey: got(apnstoken.AuthKeyFromFile(key)), KeyID: keyID, TeamID: teamID})
	client.Host = url
	client.HTTPClient.Transport.(*http2.Transport).StrictMaxConcurrentStreams = single
	return func(ctx context.Context, n int, id string) error {
		r, err := client.PushWithContext(ctx, &apns2.Notification{
			ApnsID: id, DeviceToken: token(n % devices), Topic: apnstest.DefaultTopic,
			Priority: 10, PushType: apns2.PushTypeAlert, Payload: payload,
		})
		if err == nil && !r.Sent() {
			err = fmt.Errorf("apns2 was answered %d %s", r.StatusCode, r.Reason)
		}
		return err
	}
}
