package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// Configuration, FANFARE_ROLES: accepting and sending may be done by separate processes. readyz
// names the shards that no process serves.
func TestRolesApart(t *testing.T) {
	t.Parallel()
	apns := apnstest.Start(t, apnstest.Options{})
	vars := append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))
	front := mustServe(t, t.TempDir(), append(vars, "FANFARE_ROLES=api")...)
	front.mustRegister(1)
	front.must(202, nil, "POST", "/v1/events", greeting("user-0"))
	storetest.Eventually(t, 20*time.Second, "readyz says that nobody serves", func() bool { return len(unserved(front)) == 3 })
	workers := mustServe(t, t.TempDir(), append(vars, "FANFARE_ROLES=push,jobs")...)
	apns.MustWait(t, 1, 20*time.Second)
	workers.must(404, nil, "POST", "/v1/events", greeting("user-0"))
	workers.must(200, nil, "GET", "/metrics", nil)
	storetest.Eventually(t, 20*time.Second, "every shard is served", func() bool { return len(unserved(front)) == 0 })
}

// unserved returns the notes about shards that no process serves.
func unserved(p *program) []string {
	p.t.Helper()
	var r api.Readiness
	p.must(200, &r, "GET", "/readyz", nil)
	var out []string
	for _, note := range r.Notes {
		if strings.Contains(note, "nobody serves") {
			out = append(out, note)
		}
	}
	return out
}

// Configuration, FANFARE_SHARD_SET: two processes that each serve half of the shards together send
// everything once.
func TestShardSets(t *testing.T) {
	t.Parallel()
	const n = 200
	apns := apnstest.Start(t, apnstest.Options{TrackIDs: true})
	vars := append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_SHARDS=6")
	low := mustServe(t, t.TempDir(), append(vars, "FANFARE_SHARD_SET=0-2")...)
	low.mustRegister(n)
	posts := &poster{n: n, servers: func() []*program { return []*program{low} }}
	posts.start()
	if err := <-posts.done; err != nil {
		t.Fatal(err)
	}
	mustServe(t, t.TempDir(), append(vars, "FANFARE_SHARD_SET=3,4-5")...)
	if err := apns.WaitIDs(n, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if repeats := posts.checkLedger(t, apns); repeats != 0 {
		t.Errorf("%d repeats", repeats)
	}
}

// mustCertificate writes a self-signed pair of files for 127.0.0.1 and 0.0.0.0.
func mustCertificate(t testing.TB, dir string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "fanfare"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4zero},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Duration(serial) * time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Configuration, FANFARE_TLS_CERT_FILE: HTTPS with HTTP/2. SIGHUP loads a new certificate without a
// restart, and the metric shows when the one that is used ends.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustCertificate(t, dir, 1)
	addr := fmt.Sprintf("127.0.0.1:%d", storetest.FreePort(t))
	private := fmt.Sprintf("127.0.0.1:%d", storetest.FreePort(t))
	vars := []string{"FANFARE_ADDR=" + addr, "FANFARE_METRICS_ADDR=" + private,
		"FANFARE_TLS_CERT_FILE=" + filepath.Join(dir, "cert.pem"), "FANFARE_TLS_KEY_FILE=" + filepath.Join(dir, "key.pem")}
	p := launch(t, dir, nil, vars...)
	p.base = "http://" + private
	ends := func() float64 { return p.figure(`fanfare_certificate_expires_timestamp_seconds{certificate="tls"}`) }
	ask := func() (serial int64, proto string) {
		own := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		defer own.CloseIdleConnections()
		resp, err := own.Get("https://" + addr + "/healthz")
		if err != nil {
			return 0, ""
		}
		defer resp.Body.Close()
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64(), resp.Proto
	}
	storetest.Eventually(t, 20*time.Second, "HTTP/2 over TLS", func() bool {
		serial, proto := ask()
		return serial == 1 && proto == "HTTP/2.0"
	})
	if code, _, errs := mustRun(t, dir, []string{"healthcheck"}, vars...); code != 0 {
		t.Errorf("healthcheck: exit code %d: %s", code, errs)
	}
	for suite, taken := range map[uint16]bool{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: true, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: true,
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA: false, tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA: false,
	} {
		conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}})
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != taken {
			t.Errorf("%s with TLS 1.2: %v, taken must be %v", tls.CipherSuiteName(suite), err, taken)
		}
	}
	first := ends()
	mustCertificate(t, dir, 2)
	_ = p.cmd.Process.Signal(syscall.SIGHUP)
	storetest.Eventually(t, 5*time.Second, "the new certificate", func() bool {
		serial, _ := ask()
		return serial == 2
	})
	if now := float64(time.Now().Unix()); math.Abs(first-now-3600) > 600 || math.Abs(ends()-now-2*3600) > 600 {
		t.Errorf("at %v the certificates end at %v and %v", now, first, ends())
	}
}

// Every phase of a request has a time-out: a client that never ends its head is disconnected after
// 5 s.
func TestSlowHeadIsCutOff(t *testing.T) {
	t.Parallel()
	p := mustServe(t, t.TempDir())
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: localhost\r\n")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(15 * time.Second))
	began := time.Now()
	buf := make([]byte, 1)
	for err == nil {
		_, err = conn.Read(buf)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the connection was open for %v", took)
	}
}
