package app

import (
	"log/slog"
	"slices"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns"
	"fanfare/delivery/exchange"
	"fanfare/delivery/fcm"
	"fanfare/delivery/logsender"
	"fanfare/delivery/transport"
	"fanfare/delivery/webpush"
)

// services makes the sender of each push service. A new service is a line here.
var services = map[api.Platform]func(*config, *slog.Logger) transport.Sender{
	api.PlatformAPNs:    newAPNs,
	api.PlatformFCM:     newFCM,
	api.PlatformWebPush: newWebPush,
}

// openSender makes the senders of all push services and configures them. Without any credentials,
// notifications are logged.
func (a *app) openSender() (transport.Sender, error) {
	if !a.config.sends() {
		// Somebody is trying out an open server on their own machine, so texts may be shown.
		logs := logsender.New(a.log, func() bool { return !a.keys.Any() })
		if !a.config.tries() {
			return logs, nil
		}
		trial, err := a.openTrial(logs)
		if err != nil {
			a.log.Warn("notifications to browsers cannot be tried out", "error", err)
			return logs, nil
		}
		return trial, nil
	}
	senders := transport.Senders{}
	for platform, newSender := range services {
		senders[platform] = newSender(a.config, a.log)
	}
	return senders, a.configure(senders)
}

// configure reads the apps file and the files with credentials, for all senders at once.
func (a *app) configure(s transport.Sender) error {
	return transport.Configure(s, appsFileVariable, a.appsFile())
}

// newAPNs makes the sender to APNs.
func newAPNs(c *config, log *slog.Logger) transport.Sender {
	return apns.New(apns.Options{
		URL: c.APNsURL, ManageURL: c.APNsManage, CAFile: c.APNsCAFile, KeyFile: c.APNsKeyFile, KeyID: c.APNsKeyID, TeamID: c.APNsTeamID,
		Settings: senderSettings(c, log),
	})
}

// newFCM makes the sender to FCM.
func newFCM(c *config, log *slog.Logger) transport.Sender {
	return fcm.New(fcm.Options{Settings: senderSettings(c, log)})
}

// newWebPush makes the sender to browsers.
func newWebPush(c *config, log *slog.Logger) transport.Sender {
	return webpush.New(webpush.Options{Settings: senderSettings(c, log), Origins: c.pushOrigins(), AllowNets: c.WebPushAllowNets})
}

// pushOrigins lists the hosts of push services of browsers.
func (c *config) pushOrigins() api.PushOrigins {
	return slices.Concat(api.KnownPushOrigins, c.WebPushOrigins)
}

// sendWithin is what is left of the 2 s of P4 to a request whose device was read 1.5 s ago.
const sendWithin = 500 * time.Millisecond

func senderSettings(c *config, log *slog.Logger) exchange.Settings {
	return exchange.Settings{SendWithin: min(c.NotificationLease/2, sendWithin), Logger: log}
}

// sendsTo reports whether this process has an app of a platform.
func (a *app) sendsTo(p api.Platform) bool {
	senders, _ := a.sender.(transport.Senders)
	sender, ok := senders[p].(interface{ HasApps() bool })
	return ok && sender.HasApps()
}

// delivers reports whether devices of a platform get something from this process, if only a line of its log.
func (a *app) delivers(p api.Platform) bool {
	senders, ok := a.sender.(transport.Senders)
	if !ok {
		return true // all are logged
	}
	_, logged := senders[p].(*logsender.Sender)
	return logged || a.sendsTo(p)
}

// webPushKey is the key with which pages subscribe to a topic's app of Web Push; ok is false without one.
func (a *app) webPushKey(topic string) (key string, ok bool) {
	senders, _ := a.sender.(transport.Senders)
	sender, is := senders[api.PlatformWebPush].(interface {
		PublicKey(topic string) (string, bool)
	})
	if !is {
		return "", false
	}
	return sender.PublicKey(topic)
}
