package e2e

import (
	"bufio"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// ledger is the ledger of a stand-in for APNs, in this process or another one.
type ledger interface{ Requests() []apnstest.Request }

// apnsEnv, if set, turns this program into a stand-in for APNs whose answers take the given time,
// see TestMain.
const apnsEnv = "FANFARE_TEST_APNS_LATENCY"

// apnsProcess is a stand-in for APNs in its own process. On a busy machine the process of the tests
// may read requests seconds late. Tests in which the time of a request matters use this stand-in.
type apnsProcess struct {
	t   testing.TB
	url string
	env []string
}

// startAPNs starts a stand-in whose answers take the given time. It ends with the test, or with the
// process of the tests.
func startAPNs(t testing.TB, latency time.Duration) *apnsProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), apnsEnv+"="+latency.String())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	storetest.Must(t, err)
	stdout, err := cmd.StdoutPipe()
	storetest.Must(t, err)
	storetest.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the stand-in for APNs: %v", err)
		}
	})
	p, hello := &apnsProcess{t: t}, apnsHello{}
	storetest.Must(t, json.NewDecoder(bufio.NewReader(stdout)).Decode(&hello))
	p.url, p.env = hello.URL, hello.Env
	return p
}

// apnsHello is the first output of the process: its address for the tests, and the configuration
// for its clients.
type apnsHello struct {
	URL string
	Env []string
}

// beAPNs is the main function of the process, which runs until its standard input ends. It answers
// GET /N with all requests except the first N.
func beAPNs(latency string) error {
	d, err := time.ParseDuration(latency)
	if err != nil {
		return err
	}
	s, err := apnstest.New(apnstest.Options{Latency: d})
	if err != nil {
		return err
	}
	defer s.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	go func() {
		_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var from int
			_, _ = fmt.Sscanf(r.URL.Path, "/%d", &from)
			all := s.Requests()
			_ = gob.NewEncoder(w).Encode(all[min(from, len(all)):])
		}))
	}()
	if err := json.NewEncoder(os.Stdout).Encode(apnsHello{"http://" + listener.Addr().String(), s.Env()}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// Env is the configuration of a fanfare process that sends here.
func (p *apnsProcess) Env() []string { return p.env }

// Requests are all requests that have arrived so far, in order.
func (p *apnsProcess) Requests() []apnstest.Request { return p.mustAsk(0) }

// mustAsk returns all requests except the first n.
func (p *apnsProcess) mustAsk(n int) (requests []apnstest.Request) {
	p.t.Helper()
	resp, err := http.Get(fmt.Sprintf("%s/%d", p.url, n))
	storetest.Must(p.t, err)
	defer resp.Body.Close()
	storetest.Must(p.t, gob.NewDecoder(resp.Body).Decode(&requests))
	return requests
}

// awaitIDs waits until n distinct apns-ids were taken.
func (p *apnsProcess) awaitIDs(n int, within time.Duration) {
	p.t.Helper()
	ids, seen := map[string]bool{}, 0
	storetest.Eventually(p.t, within, fmt.Sprintf("%d distinct ids are taken", n), func() bool {
		fresh := p.mustAsk(seen)
		seen += len(fresh)
		for _, r := range fresh {
			if r.Taken {
				ids[r.ID] = true
			}
		}
		return len(ids) >= n
	})
}
