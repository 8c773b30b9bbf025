package app

import (
	"log/slog"

	"fanfare/api"
	"fanfare/delivery/apns"
	"fanfare/delivery/logsender"
	"fanfare/delivery/transport"
)

// services opens the sender of each push service; a service without credentials has none. A new
// service is a line here.
var services = map[api.Platform]func(*config, *slog.Logger) (transport.Sender, error){
	api.PlatformAPNs: openAPNs,
}

// openSender opens the senders of all push services that have credentials. When
// none has, notifications are logged.
func (a *app) openSender() (transport.Sender, error) {
	senders := transport.Senders{}
	for platform, open := range services {
		sender, err := open(a.config, a.log)
		if err != nil {
			return nil, err
		}
		if sender != nil {
			senders[platform] = sender
		}
	}
	if len(senders) == 0 {
		// Somebody is trying out an open server on their own machine, so texts may be shown.
		return logsender.New(a.log, func() bool { return !a.keys.Any() }), nil
	}
	return senders, nil
}

// openAPNs opens the sender to APNs.
func openAPNs(c *config, log *slog.Logger) (transport.Sender, error) {
	if !c.sendsToAPNs() {
		return nil, nil
	}
	return apns.New(apns.Options{
		URL: c.APNsURL, CAFile: c.APNsCAFile, KeyFile: c.APNsKeyFile, KeyID: c.APNsKeyID, TeamID: c.APNsTeamID,
		AppsFile: c.APNsAppsFile, SendWithin: c.NotificationLease / 2, Logger: log,
	})
}
