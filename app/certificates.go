package app

import (
	"crypto/tls"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"fanfare/delivery/transport"

	"github.com/prometheus/client_golang/prometheus"
)

// certificate is the server's TLS certificate, replaced by reload.
type certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

// reload reads the files again; when they are broken the old pair stays.
func (c *certificate) reload() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("FANFARE_TLS_CERT_FILE: %w", err)
	}
	c.current.Store(&pair)
	return nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}

// certificateEnds shows in /metrics when certificates end: those of apps, by app, and the server's own ("tls").
type certificateEnds struct {
	sender transport.Sender
	own    *certificate // nil: none
}

var certificateEndsDesc = prometheus.NewDesc("fanfare_certificate_expires_timestamp_seconds",
	"When a certificate ends: an app's, or the server's own (tls).", []string{"certificate"}, nil)

// Describe implements prometheus.Collector.
func (c certificateEnds) Describe(out chan<- *prometheus.Desc) { out <- certificateEndsDesc }

// Collect implements prometheus.Collector.
func (c certificateEnds) Collect(out chan<- prometheus.Metric) {
	ends := map[string]time.Time{}
	if sender, ok := c.sender.(transport.Ender); ok {
		maps.Copy(ends, sender.Ends())
	}
	if c.own != nil {
		ends["tls"] = c.own.current.Load().Leaf.NotAfter
	}
	for name, end := range ends {
		out <- prometheus.MustNewConstMetric(certificateEndsDesc, prometheus.GaugeValue, float64(end.Unix()), name)
	}
}
