package redisdb_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestOpenURL: what a URL may say, and that a bad one is refused without its
// password in the error.
func TestOpenURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, problem string }{
		{"", ""}, {"embedded", ""}, {"redis://h", ""}, {"redis://:p@h:1/3", ""}, {"redis://u:p%40@[::1]:1", ""},
		{"rediss://u:p@h:1", ""}, {"redis+sentinel://a,b:1/m", ""}, {"redis+sentinel://u:p@a:1,b:1/m/2?sentinel_password=x", ""},
		{"redis+cluster://a:1,b:2", ""}, {"rediss+cluster://u:p@a:1,b:2/", ""},
		{"http://u:secret@h", "scheme"}, {"u:secret@h:1", "scheme"}, {"redis://u:secret@", "host"},
		{"redis://u:secret@h:99999", "port"}, {"redis://u:secret@a,b", "several hosts"}, {"redis://u:secret@h/x", "database"},
		{"redis+sentinel://u:secret@h", "master"}, {"redis+sentinel://h/m/-1", "database"}, {"redis+cluster://u:secret@h/1", "numbered"},
		{"redis://u:secret@h?timeout=1", "option"}, {"redis://u:1/secret@h", "%2F"}, {"redis://u:1?secret@h", "%3F"}, {"redis://u:sec%zzret@h", "escaped"},
	} {
		t.Run(strings.ReplaceAll(c.url, "/", "|"), func(t *testing.T) {
			t.Parallel()
			db, err := redisdb.Open(t.Context(), redisdb.Options{URL: c.url})
			if err == nil {
				defer db.Close()
			}
			switch {
			case c.problem == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
				t.Errorf("got %v, want %q", err, c.problem)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// TestOpenCredentials: user, password and database of the URL are used.
func TestOpenCredentials(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t, "--requirepass", "p@:/ss")
	db := storetest.Open(t, strings.Replace(server.URL(), "://", "://:p%40%3A%2Fss@", 1)+"/3")
	mustNil(t, db.Share(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "set", "k", "v")))
	info := redis.NewCmd(t.Context(), "info", "keyspace")
	mustNil(t, db.Share(t.Context(), redisdb.Read, info))
	if text, _ := info.Text(); !strings.Contains(text, "db3:keys=1") {
		t.Errorf("got %q", text)
	}
	wrong := storetest.Open(t, server.URL())
	mustCode(t, wrong.Share(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "set", "k", "v")), "unavailable")
}

// TestOpenTLS: a rediss URL speaks TLS and checks the certificate.
func TestOpenTLS(t *testing.T) {
	t.Parallel()
	certFile, keyFile, roots := mustCertificate(t)
	port := storetest.FreePort(t)
	storetest.Redis(t, "--tls-port", fmt.Sprint(port), "--tls-cert-file", certFile, "--tls-key-file", keyFile,
		"--tls-ca-cert-file", certFile, "--tls-auth-clients", "no")
	url := fmt.Sprintf("rediss://127.0.0.1:%d", port)
	db := storetest.OpenWith(t, redisdb.Options{URL: url, TLS: &tls.Config{RootCAs: roots}})
	set := redis.NewCmd(t.Context(), "set", "k", "v")
	mustNil(t, db.Share(t.Context(), redisdb.Write, set))
	stranger := storetest.Open(t, url)
	mustCode(t, stranger.Share(t.Context(), redisdb.Write, set), "unavailable")
}

func mustCertificate(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	mustNil(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	mustNil(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	mustNil(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	mustNil(t, os.WriteFile(certFile, certPEM, 0o600))
	mustNil(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(certPEM)
	return certFile, keyFile, roots
}

// TestCheck: what makes a Redis lose work is found, each with its reason.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"good":    {[]string{"--appendonly", "yes"}, nil},
		"no AOF":  {nil, []string{"appendonly"}},
		"evicted": {[]string{"--maxmemory-policy", "allkeys-lru", "--appendonly", "yes"}, []string{"maxmemory-policy"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := setupWith(t, redisdb.Options{}, c.args...).Check(t.Context())
			if len(found) != len(c.want) {
				t.Fatalf("got %q, want %q", found, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(found[i], want) {
					t.Errorf("got %q, want %q", found[i], want)
				}
			}
		})
	}
	t.Run("a user without channels", func(t *testing.T) {
		t.Parallel()
		server := storetest.Redis(t, "--appendonly", "yes")
		for rights, want := range map[string]int{"&ff:*": 0, "resetchannels": 1, "&other:*": 1, "&ff:* -publish": 1, "&ff:* -subscribe": 1} {
			found := storetest.Open(t, server.MustUser(t, append(strings.Fields("resetchannels ~* +@all"), strings.Fields(rights)...)...)).Check(t.Context())
			if len(found) != want || want > 0 && !strings.Contains(found[0], "may not use the channels") {
				t.Errorf("%s: got %q", rights, found)
			}
		}
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		db := storetest.Open(t, "")
		if found := db.Check(t.Context()); len(found) != 0 || !db.Embedded() || db.Reading() != nil {
			t.Errorf("got %q", found)
		}
	})
	t.Run("away", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.server.Kill()
		if found := strings.Join(w.Check(t.Context()), "\n"); !strings.Contains(found, "cannot be") {
			t.Errorf("got %q", found)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		found := storetest.Open(t, storetest.Cluster(t).URL()).Check(t.Context())
		if n := strings.Count(strings.Join(found, " "), `cluster-require-full-coverage is "yes"`); len(found) != 6 || n != 3 {
			t.Errorf("got %q, want two lines for each master", found)
		}
	})
}

// TestEmbedded: keys expire by the clock, and strangers are kept out.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "embedded")
	mustNil(t, db.Share(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "set", "k", "v", "px", 300)))
	storetest.Eventually(t, 30*time.Second, "the key expires", func() bool {
		get := redis.NewCmd(t.Context(), "get", "k")
		return db.Share(t.Context(), redisdb.Read, get) == nil && get.Err() == redis.Nil
	})
	addr := db.Client().(*redis.Client).Options().Addr
	stranger := redis.NewClient(&redis.Options{Addr: addr})
	defer stranger.Close()
	if err := stranger.Set(t.Context(), "k", "v", 0).Err(); !redis.HasErrorPrefix(err, "NOAUTH") {
		t.Errorf("a stranger got %v, want NOAUTH", err)
	}
}

// TestBlocking: a hundred blocked readers do not keep a request waiting.
func TestBlocking(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		key := keyOf(t, 0)
		got := make(chan error, 100)
		for range cap(got) {
			go func() { got <- db.Blocking().BLPop(t.Context(), 20*time.Second, key).Err() }()
		}
		for range cap(got) {
			push := redis.NewCmd(t.Context(), "rpush", key, "x")
			start := time.Now()
			mustNil(t, db.Share(t.Context(), redisdb.Write, push))
			if d := time.Since(start); d > 5*time.Second {
				t.Fatalf("a request took %v", d)
			}
		}
		for range cap(got) {
			mustNil(t, <-got)
		}
	})
}

// TestPing asks all masters.
func TestPing(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		d, err := db.Ping(t.Context())
		if err != nil || d <= 0 {
			t.Errorf("got %v, %v", d, err)
		}
	})
}

// While one master of a Cluster is away the others serve what is theirs, unless they are
// told to refuse everything.
func TestPingOfACluster(t *testing.T) {
	t.Parallel()
	for coverage, partly := range map[string]bool{"no": true, "yes": false} {
		t.Run(coverage, func(t *testing.T) {
			t.Parallel()
			c := storetest.PrivateCluster(t, 0, "--cluster-require-full-coverage", coverage)
			db := storetest.Open(t, c.URL())
			if _, err := db.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.Nodes[1].Kill()
			storetest.Eventually(t, 20*time.Second, "the master is missed", func() bool {
				_, err := db.Ping(t.Context())
				return api.CodeOf(err) == api.CodeUnavailable && errors.Is(err, redisdb.ErrPartlyAway) == partly
			})
		})
	}
}

// A master that hangs is no reason to miss the others, whomever the client asks for the
// map of slots.
func TestPingBesideAMasterThatHangs(t *testing.T) {
	t.Parallel()
	c := storetest.PrivateCluster(t, 0, "--cluster-require-full-coverage", "no")
	db := storetest.Open(t, c.URL())
	c.Nodes[1].Pause()
	defer c.Nodes[1].Resume()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			if _, err := db.Ping(ctx); !errors.Is(err, redisdb.ErrPartlyAway) {
				t.Errorf("beside a master that hangs: %v", err)
			}
		})
	}
	all.Wait()
}
