package console

import (
	"encoding/json"
	"net/http"

	"fanfare/api"
)

// refreshEvery is how often pages with figures are read again, in seconds.
const refreshEvery = 3

// overview shows how the cluster is.
func (v *visit) overview() error {
	var d struct {
		Stats   api.Stats
		Ready   api.Readiness
		Apps    []api.App // those that do not run
		Running int
		Servers []api.Server
		// Delivered is how many notifications all processes deliver a second.
		Delivered float64
		Hour      *history
	}
	if err := v.ask(http.MethodGet, "/v1/stats", nil, &d.Stats); err != nil {
		return err
	}
	ready, err := v.call(http.MethodGet, "/readyz", nil) // 503 has the same body
	if err != nil {
		return err
	}
	if err := json.Unmarshal(ready.body.Bytes(), &d.Ready); err != nil {
		return err
	}
	all, err := v.listApps()
	if err != nil {
		return err
	}
	for _, app := range all {
		if app.State == api.AppRunning && app.Waiting == 0 {
			d.Running++
		} else {
			d.Apps = append(d.Apps, app)
		}
	}
	var servers api.ServerList
	if err := v.ask(http.MethodGet, "/v1/servers", nil, &servers); err != nil {
		return err
	}
	d.Servers = servers.Items
	for _, s := range d.Servers {
		d.Delivered += s.DeliveredPerSecond
	}
	if d.Hour, err = v.lastMinutes(spans[0]); err != nil {
		return err
	}
	return v.page("overview", "Overview", refreshEvery, d)
}

// servers lists the processes.
func (v *visit) servers() error {
	var list api.ServerList
	if err := v.ask(http.MethodGet, "/v1/servers", nil, &list); err != nil {
		return err
	}
	return v.page("servers", "Servers", refreshEvery, list.Items)
}

// about shows version and configuration of the process that answers.
func (v *visit) about() error {
	var about api.About
	if err := v.ask(http.MethodGet, "/v1/about", nil, &about); err != nil {
		return err
	}
	return v.page("about", "About", 0, about)
}
