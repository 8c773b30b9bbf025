package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fanfare/api"
	"fanfare/delivery/logsender"
	"fanfare/delivery/transport"
	"fanfare/delivery/webpush"
)

// trialTopic is the topic of the app of Web Push that a server has with which somebody tries fanfare out.
const trialTopic = "web.example"

// tries reports whether somebody tries fanfare out: nothing is configured that keeps data elsewhere or sends, and only
// this machine reaches the server.
func (c *config) tries() bool {
	return !c.sends() && c.embedded() && c.loopback() && strings.HasPrefix(c.DatabaseURL, "sqlite:")
}

// appsFile is the apps file: the operator's, or that of openTrial; "" if there is none.
func (a *app) appsFile() string {
	if a.config.AppsFile != "" {
		return a.config.AppsFile
	}
	return a.trialApps
}

// openTrial makes the senders of a server with which somebody tries fanfare out: notifications are logged, but those
// to browsers of trialTopic are sent. Its key is made at the first start, in files beside the database, and stays.
func (a *app) openTrial(logs *logsender.Sender) (transport.Sender, error) {
	base := a.config.besideDatabase()
	apps := base + ".apps.json"
	if err := writeTrial(apps, base+".vapid.pem"); err != nil {
		return nil, err
	}
	push, _ := newWebPush(a.config, a.log).(*webpush.Sender)
	senders := transport.Senders{api.PlatformAPNs: logs, api.PlatformFCM: logs, api.PlatformWebPush: &trialPush{push, logs}}
	a.trialApps = apps
	if err := a.configure(senders); err != nil {
		a.trialApps = "" // nobody is told that it sends
		return nil, err
	}
	return senders, nil
}

// writeTrial writes an apps file with the app of trialTopic, and its private key, unless they are there.
func writeTrial(apps, key string) error {
	if _, err := os.Stat(apps); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	private, public, err := webpush.NewKey()
	if err != nil {
		return err
	}
	if err := writeWhole(key, private); err != nil {
		return fmt.Errorf("write the key of Web Push: %w", err)
	}
	text, _ := json.MarshalIndent(map[string]any{"apps": []any{map[string]any{ // strings always marshal
		"platform": api.PlatformWebPush, "topic": trialTopic, "public_key": public, "private_key_file": filepath.Base(key), "subject": "mailto:nobody@example.com",
	}}}, "", "  ")
	if err := writeWhole(apps, append(text, '\n')); err != nil {
		return fmt.Errorf("write the app of Web Push: %w", err)
	}
	return nil
}

// writeWhole writes a file that only this user may read, whole or not at all.
func writeWhole(name string, text []byte) error {
	fresh := name + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) { // it may have other rights
		return err
	}
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, name)
}

// trialPush sends to browsers of the topics that it has an app for, and logs other notifications to browsers.
type trialPush struct {
	*webpush.Sender
	logs *logsender.Sender
}

// Start implements transport.Sender.
func (s *trialPush) Start(ctx context.Context, n *transport.Notification, done func(transport.Answer)) {
	if _, ok := s.PublicKey(n.Topic); ok {
		s.Sender.Start(ctx, n, done)
		return
	}
	s.logs.Start(ctx, n, done)
}

// Takes implements transport.Sender; it takes every app.
func (s *trialPush) Takes(*api.DeviceRequest) bool { return true }
