package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// family is a metric: its type and the names of its labels.
type family struct {
	kind   string
	labels map[string]bool
}

var (
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`)
	seriesLine = regexp.MustCompile(`(?m)^([a-z_]\w*)(?:\{(.*)\})? \S+$`)
	labelName  = regexp.MustCompile(`(\w+)="(?:[^"\\]|\\.)*"`)
	metricRow  = regexp.MustCompile("(?m)^\\| `(fanfare_\\w+)` \\| (\\w+) \\| ([^|]*)\\| [^|]+ \\|$")
	labelInRow = regexp.MustCompile("`(\\w+)`")

	// In an expression: a metric with the conditions on its labels, the labels in by (...), and a
	// label in a text.
	selector = regexp.MustCompile(`\b((?:fanfare|go|process)_\w+|up)\b(?:\{([^}]*)\})?`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
	matcher  = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"`)
	inText   = regexp.MustCompile(`\{\{ *(?:\$labels\.)?(\w+) *\}\}`)
)

// families reads the text of /metrics.
func families(text string) map[string]*family {
	all := map[string]*family{}
	for _, line := range typeLine.FindAllStringSubmatch(text, -1) {
		all[line[1]] = &family{line[2], map[string]bool{}}
	}
	for _, line := range seriesLine.FindAllStringSubmatch(text, -1) {
		for _, label := range labelName.FindAllStringSubmatch(line[2], -1) {
			if f := find(all, line[1]); f != nil && label[1] != "le" {
				f.labels[label[1]] = true
			}
		}
	}
	return all
}

// find finds the family of a series.
func find(all map[string]*family, series string) *family {
	for _, part := range []string{"", "_bucket", "_sum", "_count"} {
		if name, is := strings.CutSuffix(series, part); is && all[name] != nil && (part == "" || all[name].kind == "histogram" || all[name].kind == "summary") {
			return all[name]
		}
	}
	return nil
}

// mustMetrics starts a server, uses every feature, and returns its metrics.
func mustMetrics(t *testing.T) string {
	t.Helper()
	apns := apnstest.Start(t, apnstest.Options{})
	p := mustServe(t, t.TempDir(), append(apns.Env(), appWithCertificate(t, apns), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_REQUEST_TIMEOUT=15s")...)
	s := &scene{T: t, server: p}
	p.insist("PUT", "/v1/users/user-0/devices/"+deviceToken(0), phone)
	event := greeting("user-0")
	event["audience"] = map[string]any{"users": []string{"user-0", "nobody"}}
	p.insist("POST", "/v1/events", event)
	apns.MustWait(t, 1, time.Minute)
	apns.ScriptAll(apnstest.Fail(400, "BadDeviceToken"))
	s.post(60)
	p.insist("PUT", "/v1/broadcasts/match:1", broadcast("none"))
	p.putSale("spring", -time.Hour, time.Hour, 60_000)
	p.mustReserve("spring")
	p.insist("POST", "/v1/queues/emails/jobs", map[string]any{"type": "welcome"})
	p.must(404, nil, "GET", "/nothing", nil)
	_ = p.mustFollow("bob", "").body.Close()
	text := ""
	storetest.Eventually(t, 60*time.Second, "all figures", func() bool {
		_, answer, err := p.try("GET", "/metrics", nil)
		text = string(answer)
		return err == nil && strings.Contains(text, "fanfare_apns_breaker_open{") && strings.Contains(text, "fanfare_streams_ended_total{") &&
			strings.Contains(text, "fanfare_queue_depth{") && strings.Contains(text, "fanfare_job_queue_depth{") &&
			strings.Contains(text, "fanfare_broadcast_unknown_channels{") && strings.Contains(text, "fanfare_redis_clock_ahead_seconds{") && strings.Contains(text, "fanfare_contacts_pending")
	})
	return text
}

// The table of metrics, the alerts and the dashboard use only metrics that a server has, with their
// real labels. The table has all metrics.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	text := mustMetrics(t)
	all := families(text)
	t.Run("Table", func(t *testing.T) { checkTable(t, all) })
	t.Run("Alerts", func(t *testing.T) {
		rules := storetest.RepositoryFile(t, "docs/monitoring/alerts.yml")
		for _, rule := range strings.Split(rules, "- alert: ")[1:] {
			name, rest, _ := strings.Cut(rule, "\n")
			expr, _, _ := strings.Cut(strings.SplitN(rest, "expr:", 2)[1], "labels:")
			checkExpression(t, "alert "+name, expr, rest, all)
		}
	})
	t.Run("Dashboard", func(t *testing.T) { checkDashboard(t, all) })
	t.Run("Promtool", func(t *testing.T) { checkByPromtool(t, text) })
}

// checkTable compares the table of metrics with the metrics of a server.
func checkTable(t *testing.T, all map[string]*family) {
	t.Helper()
	rows := map[string]bool{}
	for _, row := range metricRow.FindAllStringSubmatch(storetest.RepositoryFile(t, "docs/monitoring/README.md"), -1) {
		rows[row[1]] = true
		var labels []string
		for _, label := range labelInRow.FindAllStringSubmatch(row[3], -1) {
			labels = append(labels, label[1])
		}
		slices.Sort(labels)
		switch is := all[row[1]]; {
		case is == nil:
			t.Errorf("the table has %s, a server has not", row[1])
		case is.kind != row[2] || !slices.Equal(slices.Sorted(maps.Keys(is.labels)), labels):
			t.Errorf("the table says of %s: %s %v; it is %s %v", row[1], row[2], labels, is.kind, slices.Sorted(maps.Keys(is.labels)))
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "fanfare_") && !rows[name] {
			t.Errorf("the table lacks %s", name)
		}
	}
}

// checkExpression checks the metrics and labels of an expression, and the labels in its texts.
func checkExpression(t *testing.T, of, expr, texts string, all map[string]*family) {
	t.Helper()
	known, found := map[string]bool{"instance": true, "job": true, "le": true}, 0
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		found++
		f := find(all, s[1])
		if f == nil && s[1] != "up" {
			t.Errorf("%s asks for %s, which a server has not", of, s[1])
			continue
		}
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			if f != nil && !f.labels[m[1]] {
				t.Errorf("%s asks for the label %s of %s, which has not got it", of, m[1], s[1])
			}
		}
		if f != nil {
			maps.Copy(known, f.labels)
		}
	}
	for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(by[1], ",") {
			if !known[strings.TrimSpace(label)] {
				t.Errorf("%s groups by %s, which nothing has", of, label)
			}
		}
	}
	for _, label := range inText.FindAllStringSubmatch(texts, -1) {
		if !known[label[1]] {
			t.Errorf("%s shows the label %s, which nothing has", of, label[1])
		}
	}
	if found == 0 {
		t.Errorf("%s asks for no metric", of)
	}
}

// panel is a part of the dashboard.
type panel struct {
	ID          int
	Type, Title string
	Targets     []struct{ Expr, LegendFormat string }
}

func mustPanels(t *testing.T) []panel {
	t.Helper()
	var board struct{ Panels []panel }
	storetest.Must(t, json.Unmarshal([]byte(storetest.RepositoryFile(t, "docs/monitoring/dashboard.json")), &board))
	return board.Panels
}

func checkDashboard(t *testing.T, all map[string]*family) {
	t.Helper()
	ids := map[int]bool{}
	for _, p := range mustPanels(t) {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			checkExpression(t, p.Title, target.Expr, target.LegendFormat, all)
		}
	}
	if len(ids) < 20 {
		t.Errorf("only %d panels", len(ids))
	}
}

// checkByPromtool lets Prometheus' own tool check the rules and their tests, the expressions of the
// dashboard, and the metrics.
func checkByPromtool(t *testing.T, metrics string) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is not installed (apt-get install prometheus); make test installs it")
	}
	run := func(stdin string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir, cmd.Stdin = filepath.Join(storetest.Root(t), "docs", "monitoring"), strings.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "FAILED") {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	var expressions []map[string]string
	for _, p := range mustPanels(t) {
		for _, target := range p.Targets {
			expressions = append(expressions, map[string]string{"record": fmt.Sprintf("panel:%d:%d", p.ID, len(expressions)), "expr": target.Expr})
		}
	}
	rules, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": expressions}}})
	storetest.Must(t, err)
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	storetest.Must(t, os.WriteFile(file, rules, 0o600))
	run("", "check", "rules", "alerts.yml", file)
	run("", "test", "rules", "alerts_test.yml", "alerts_days_test.yml")
	run(metrics, "check", "metrics")
}
