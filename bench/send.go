package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
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

// inFlight is the number of goroutines that send in a loop. If answers are late, there are
// farInFlight goroutines over farConnections connections.
const (
	inFlight       = 512
	farInFlight    = 4000
	farConnections = 4
)

// sendFunc sends the n-th notification and waits for its answer.
type sendFunc func(ctx context.Context, n int) error

// target is a stand-in for APNs in another process.
type target struct{ url, ca, key string }

// The ids that the stand-in accepts by default.
const keyID, teamID = "KEYID12345", "TEAMID1234"

// childSend is the child process "send". After a warm-up it sends for a while in a loop, and prints
// the number of answers per second. at is the directory of the stand-in's keys and its URL.
func childSend(ctx context.Context, which, at string, d time.Duration) sample {
	dir, url, _ := strings.Cut(at, ",")
	t := target{url, filepath.Join(dir, "ca.pem"), filepath.Join(dir, "AuthKey.p8")}
	callers := inFlight
	var send sendFunc
	switch which {
	case "stock":
		send = t.client(false) // apns2 unchanged, except for the trusted roots
	case "stock-far":
		callers, send = farInFlight, t.stockFar()
	case "stage":
		send = t.stage()
	}
	l := &load{callers: callers, call: func(ctx context.Context, _ int) calls {
		return func(n int, sent time.Time) time.Duration {
			must(send(ctx, n))
			return time.Since(sent)
		}
	}}
	l.run(ctx, d/4)
	return l.run(ctx, d)
}

// payload is the payload of every notification of the loops, the same as fanfare's.
var payload = []byte(`{"aps":{"alert":{"title":"Hello","body":"from the benchmark"}},"event_id":"00000000000000000000000000000000","type":"greeting"}`)

func notificationID(n int) string { return fmt.Sprintf("%08x-0000-5000-8000-%012x", n, n) }

// stage sends through the push stage of fanfare.
func (t target) stage() sendFunc {
	sender := apns.New(apns.Options{URL: t.url, CAFile: t.ca, KeyFile: t.key, KeyID: keyID, TeamID: teamID})
	must(transport.Configure(sender, "", ""))
	return func(ctx context.Context, n int) error {
		a := transport.Await(ctx, sender, &transport.Notification{
			ID: notificationID(n), Token: token(n % devices), Topic: apnstest.DefaultTopic,
			Environment: api.EnvProduction, PushType: api.PushAlert, Priority: 10, Payload: payload,
		})
		if a.Outcome != transport.Delivered {
			return fmt.Errorf("the stage answered %v", a.Outcome)
		}
		return nil
	}
}

// stockFar sends through several clients of apns2, each with one connection.
func (t target) stockFar() sendFunc {
	var sends [farConnections]sendFunc
	for i := range sends {
		sends[i] = t.client(true)
	}
	return func(ctx context.Context, n int) error { return sends[n%farConnections](ctx, n) }
}

// client sends through apns2, over a single connection if single is set.
func (t target) client(single bool) sendFunc {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(got(os.ReadFile(t.ca)))
	client := apns2.NewTokenClient(&apnstoken.Token{AuthKey: got(apnstoken.AuthKeyFromFile(t.key)), KeyID: keyID, TeamID: teamID})
	client.Host = t.url
	client.HTTPClient = &http.Client{Timeout: time.Minute, Transport: &http2.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ReadIdleTimeout: apns2.ReadIdleTimeout, StrictMaxConcurrentStreams: single,
	}}
	return func(ctx context.Context, n int) error {
		r, err := client.PushWithContext(ctx, &apns2.Notification{
			ApnsID: notificationID(n), DeviceToken: token(n % devices), Topic: apnstest.DefaultTopic,
			Priority: 10, PushType: apns2.PushTypeAlert, Payload: payload,
		})
		if err == nil && !r.Sent() {
			err = fmt.Errorf("apns2 was answered %d %s", r.StatusCode, r.Reason)
		}
		return err
	}
}
