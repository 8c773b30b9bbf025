package e2e

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spans is a collector that keeps what it gets.
type spans struct {
	url     string
	mu      sync.Mutex
	all     []*span.Span
	service string
	logins  []string // the Authorization of each post
}

func mustCollect(t testing.TB) *spans {
	t.Helper()
	s := &spans{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.take(r); err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *spans) take(r *http.Request) error {
	if r.URL.Path != "/v1/traces" {
		return fmt.Errorf("posted to %s", r.URL.Path)
	}
	unzipped, err := gzip.NewReader(r.Body)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(unzipped)
	if err != nil {
		return err
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logins = append(s.logins, r.Header.Get("Authorization"))
	for _, of := range request.GetResourceSpans() {
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				s.service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range of.GetScopeSpans() {
			s.all = append(s.all, scope.GetSpans()...)
		}
	}
	return nil
}

// of lists the spans of a trace by their names.
func (s *spans) of(trace string) map[string][]*span.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string][]*span.Span{}
	for _, one := range s.all {
		if hex.EncodeToString(one.GetTraceId()) == trace {
			found[one.GetName()] = append(found[one.GetName()], one)
		}
	}
	return found
}

func attributeOf(s *span.Span, name string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == name {
			v := a.GetValue()
			if text := v.GetStringValue(); text != "" {
				return text
			}
			return fmt.Sprint(v.GetIntValue())
		}
	}
	return ""
}

// T1: a call is recorded below the caller's span, and below it the targeting of its event and each request to a push
// service, also when another process sends, and when the notification waited for a second attempt. No span names a user
// or a whole token.
func TestT1_ATraceFollowsAnEvent(t *testing.T) {
	t.Parallel()
	collected := mustCollect(t)
	apns := apnstest.Start(t, apnstest.Options{})
	redis := storetest.Redis(t)
	vars := append(quick("FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_TRACES_URL="+strings.Replace(collected.url, "http://", "http://me:s%3Acret@", 1)), apns.Env()...)
	front := mustServe(t, t.TempDir(), append(slices.Clone(vars), "FANFARE_ROLES=api,jobs")...)
	mustServe(t, t.TempDir(), append(slices.Clone(vars), "FANFARE_ROLES=push")...)
	front.mustRegister(2)
	apns.Script(deviceToken(1), apnstest.Fail(500, "InternalServerError"), apnstest.Answer{})
	trace := func(n int, user, sampled string) string {
		id := fmt.Sprintf("%032x", 0xabcdef0000+n)
		var a api.EventAccepted
		front.must(202, &a, "POST", "/v1/events", greeting(user), "Traceparent", "00-"+id+"-00f067aa0ba902b7-"+sampled)
		return id
	}
	id, unsampled := trace(1, "user-1", "01"), trace(2, "user-0", "00") // the other one must not get the script's answers
	const call = "POST /v1/events"
	storetest.Eventually(t, time.Minute, "the trace is whole", func() bool {
		of := collected.of(id)
		return len(of[call]) == 1 && len(of["target"]) >= 1 && len(of["send"]) >= 2
	})
	front.must(201, nil, "PUT", "/v1/broadcasts/match:1", broadcast("none"))
	const live = "00000000000000000000abcdef000003"
	front.must(202, nil, "POST", "/v1/events", liveEvent("match:1", 1), "Traceparent", "00-"+live+"-00f067aa0ba902b7-01")
	storetest.Eventually(t, time.Minute, "the trace of a broadcast is whole", func() bool { return len(collected.of(live)["send"]) == 1 })
	for _, id := range []string{id, live} {
		if n := len(collected.of(id)["target"]); n != 1 {
			t.Errorf("the targeting of an event is recorded %d times", n)
		}
	}
	of := collected.of(id)
	root := of[call][0]
	if hex.EncodeToString(root.GetParentSpanId()) != "00f067aa0ba902b7" || attributeOf(root, "http.response.status_code") != "202" {
		t.Errorf("the call is %v", root)
	}
	for _, one := range slices.Concat(of["target"], of["send"]) {
		if string(one.GetParentSpanId()) != string(root.GetSpanId()) || one.GetStartTimeUnixNano() < root.GetStartTimeUnixNano() || one.GetEndTimeUnixNano() < one.GetStartTimeUnixNano() {
			t.Errorf("below the call there is %v", one)
		}
	}
	failed := func(s *span.Span) bool { return s.GetStatus().GetCode() == span.Status_STATUS_CODE_ERROR }
	delivered := func(s *span.Span) bool { return attributeOf(s, "fanfare.outcome") == "delivered" && !failed(s) }
	if !slices.ContainsFunc(of["send"], failed) || !slices.ContainsFunc(of["send"], delivered) {
		t.Errorf("the sends ended as %v", of["send"])
	}
	collected.mu.Lock()
	defer collected.mu.Unlock()
	for _, one := range collected.all {
		if text := one.String(); strings.Contains(text, "user-1") || strings.Contains(text, deviceToken(1)) {
			t.Errorf("a span names a user or a token: %s", text)
		}
		if hex.EncodeToString(one.GetTraceId()) == unsampled {
			t.Errorf("the caller wanted no span: %v", one)
		}
	}
	if collected.service != "fanfare" || slices.ContainsFunc(collected.logins, func(l string) bool { return l != "Basic bWU6czpjcmV0" }) {
		t.Errorf("service %q, logins %q", collected.service, collected.logins)
	}
}

// T4: where spans are recorded, a claim answers the span of the call that enqueued the job. A caller who wants no span gets its
// own traceparent back.
func TestT4_AJobGoesOnBelowItsCall(t *testing.T) {
	t.Parallel()
	collected := mustCollect(t)
	p := mustServe(t, t.TempDir(), quick("FANFARE_TRACES_URL="+collected.url)...)
	const id, unsampled = "0000000000000000000000000000abcd", "00-0000000000000000000000000000abce-00f067aa0ba902b7-00"
	claim := func(traceparent string) string {
		p.must(202, nil, "POST", "/v1/queues/q/jobs", map[string]any{"type": "mail"}, "Traceparent", traceparent)
		var got api.ClaimedJobs
		p.must(200, &got, "POST", "/v1/queues/q/claims", map[string]any{"worker": "w", "wait_ms": 20_000})
		if len(got.Jobs) != 1 {
			t.Fatalf("claimed %+v", got)
		}
		return got.Jobs[0].Traceparent
	}
	below := claim("00-" + id + "-00f067aa0ba902b7-01")
	const call = "POST /v1/queues/{queue}/jobs"
	storetest.Eventually(t, time.Minute, "the call is recorded", func() bool { return len(collected.of(id)[call]) == 1 })
	if want := "00-" + id + "-" + hex.EncodeToString(collected.of(id)[call][0].GetSpanId()) + "-01"; below != want {
		t.Errorf("the job goes on below %q, want %q", below, want)
	}
	if got := claim(unsampled); got != unsampled {
		t.Errorf("the job of an unsampled call goes on below %q", got)
	}
}

// T2: a collector that takes connections and never answers holds up no call and no stop, and is told once.
func TestT2_AHangingCollector(t *testing.T) {
	t.Parallel()
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	t.Cleanup(func() { _ = hangs.Close() })
	p := mustServe(t, t.TempDir(), "FANFARE_TRACES_URL=http://"+hangs.Addr().String())
	began := time.Now()
	p.each(3000, func(n int) error { // more than the queue of spans holds
		if status, _, err := p.try("GET", "/v1/event-types", nil); err != nil || status != http.StatusOK {
			return fmt.Errorf("call %d: %d %w", n, status, err)
		}
		return nil
	})
	if code, took := p.terminate(); code != 0 || took > 10*time.Second {
		t.Errorf("stopped with %d after %v", code, took)
	}
	if n := strings.Count(p.stderr.String(), "spans were not sent") + strings.Count(p.stderr.String(), "spans are not sent"); n < 1 || n > 2+int(time.Since(began)/time.Minute) {
		t.Errorf("told %d times within %v: %s", n, time.Since(began), p.stderr.String())
	}
}

// T3: a URL or a share that cannot be used stops the start and is named.
func TestT3_AWrongCollector(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"FANFARE_TRACES_URL=collector:4318": "FANFARE_TRACES_URL: must be", "FANFARE_TRACES_SHARE=1.5": "FANFARE_TRACES_SHARE: 1.5 is not within 0 to 1"} {
		if code, _, stderr := mustRun(t, t.TempDir(), nil, value); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s", value, code, stderr)
		}
	}
}
