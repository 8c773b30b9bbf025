package app

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// buildVersion is set by the linker (-X fanfare/app.buildVersion=...), as `make build`, `make
// release` and the Dockerfile do; empty means that Go's build information is used.
var buildVersion string

// builtAs is the version of this program and the revision that it was built from;
// a revision is "" where the build did not know it.
func builtAs() (version, revision string) {
	version = buildVersion
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, ""
	}
	if version == "" {
		version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value[:min(12, len(s.Value))]
		}
	}
	return version, revision
}

// buildInfo is a gauge of 1 whose labels name the running version.
func buildInfo() prometheus.Collector {
	version, revision := builtAs()
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "fanfare_build_info", Help: "Always 1; the labels name the running version.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": runtime.Version()},
	})
	g.Set(1)
	return g
}
