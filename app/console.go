package app

import (
	"context"
	"net/http"
	"net/url"
	"runtime"
	"strings"

	"fanfare/api"
	"fanfare/console"
	"fanfare/handlers/web"
	"fanfare/store/apikeys"
	"fanfare/store/sessions"
)

// console makes the operators' console on top of the JSON routes.
func (a *app) console(routes http.Handler) http.Handler {
	o := console.Options{
		Routes: routes, As: asOperator, HasKeys: a.keys.Any, FindKey: a.keys.Find, KeyID: apikeys.IDOf,
		Sessions: sessions.New(a.redis, a.tokens, sessions.Options{}), Mode: a.config.Console, HidePayloads: !bool(a.config.ConsolePayloads),
		Starting: a.notYet, Logger: a.log,
	}
	if a.config.PublicURL != "" {
		o.PublicURL, _ = url.Parse(a.config.PublicURL) // it was checked
	}
	return console.New(o)
}

// checkPublicURL reports a FANFARE_PUBLIC_URL that is none.
func (c *config) checkPublicURL() problems {
	u, err := url.Parse(c.PublicURL)
	if c.PublicURL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		return problems{"FANFARE_PUBLIC_URL: is not https://host[:port][/path] or http://host[:port][/path]"}
	}
	return nil
}

// asOperator lets a request of the console act for an API key. Operators see the details in /readyz,
// also where the public address does not show them.
func asOperator(ctx context.Context, key string) context.Context {
	return context.WithValue(web.AsKey(ctx, key), forOperators{}, true)
}

// hidesConsole reports whether this process has no console at a path.
func (a *app) hidesConsole(path string) bool {
	return (a.config.Console == console.Off || !a.config.has(roleAPI)) && (path == "/console" || strings.HasPrefix(path, "/console/"))
}

// about describes this process.
func (a *app) about() api.About {
	version, revision := builtAs()
	settings := a.config.allSettings()
	for i := range settings {
		if settings[i].Name == appsFileVariable && a.trialApps != "" {
			settings[i].Value = "none: " + a.trialApps + " was made to try out " + trialTopic
		}
	}
	return api.About{Version: version, Commit: revision, GoVersion: runtime.Version(), Settings: settings}
}
