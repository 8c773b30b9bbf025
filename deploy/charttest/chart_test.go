package charttest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// object is a manifest.
type object = map[string]any

func mustChart(t testing.TB) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir("../chart")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render renders the chart for a release, and gives its manifests by kind, and the notes.
func render(t testing.TB, release, values string) (all map[string]object, notes string, err error) {
	t.Helper()
	var v map[string]any
	if err := yaml.UnmarshalStrict([]byte(values), &v); err != nil {
		t.Fatalf("%s: %v", values, err)
	}
	c := mustChart(t)
	options := common.ReleaseOptions{Name: release, Namespace: "push", Revision: 1, IsInstall: true}
	rendering, err := util.ToRenderValues(c, v, options, common.DefaultCapabilities)
	if err != nil {
		return nil, "", err
	}
	files, err := engine.Engine{Strict: true}.Render(c, rendering)
	if err != nil {
		return nil, "", err
	}
	all = map[string]object{}
	for name, text := range files {
		switch {
		case strings.HasSuffix(name, "NOTES.txt"):
			notes = text
		case strings.HasSuffix(name, ".yaml") && strings.TrimSpace(text) != "":
			var o object
			if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			kind, _ := o["kind"].(string)
			if all[kind] != nil {
				t.Fatalf("a second %q", kind)
			}
			all[kind] = o
		}
	}
	return all, notes, nil
}

// mustBase reads the base for kustomize.
func mustBase(t testing.TB) map[string]object {
	t.Helper()
	all := map[string]object{}
	for _, name := range []string{"deployment", "service", "secret", "poddisruptionbudget"} {
		text, err := os.ReadFile(filepath.Join("../kubernetes", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		all[mustObject(t, string(text))["kind"].(string)] = mustObject(t, string(text))
	}
	return all
}

func mustObject(t testing.TB, text string) (o object) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return o
}

// flat lists the leaves of a manifest by their paths. Lists of objects with names go by their names.
func flat(prefix string, v any, out map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			flat(prefix+"/"+name, value, out)
		}
	case []any:
		for i, value := range v {
			name := fmt.Sprint(i)
			if o, ok := value.(map[string]any); ok && o["name"] != nil {
				name = fmt.Sprint(o["name"])
			}
			flat(prefix+"/"+name, value, out)
		}
	default:
		out[prefix] = v
	}
}

// With the values of the base's examples, the chart makes what the base is, and beside it only labels that Helm's users
// expect, a checksum, and the name of the image.
func TestTheChartIsTheBase(t *testing.T) {
	base := mustBase(t)
	example := base["Secret"]["stringData"].(map[string]any)
	values := fmt.Sprintf("secret: {redisURL: %q, databaseURL: %q, adminKey: %q}", example["redis-url"], example["database-url"], example["admin-key"])
	chart, _, err := render(t, "fanfare", values)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := slices.Sorted(maps.Keys(chart)), slices.Sorted(maps.Keys(base)); !slices.Equal(a, b) {
		t.Fatalf("the chart has %v, the base %v", a, b)
	}
	for kind := range base {
		ours, theirs := map[string]any{}, map[string]any{}
		flat("", chart[kind], ours)
		flat("", base[kind], theirs)
		for path := range theirs {
			if image := strings.HasSuffix(path, "/image"); !image && !reflect.DeepEqual(ours[path], theirs[path]) {
				t.Errorf("%s%s is %v in the base, %v in the chart", kind, path, theirs[path], ours[path])
			}
		}
		for path, value := range ours {
			helm := strings.Contains(path, "/app.kubernetes.io/") || strings.HasSuffix(path, "/helm.sh/chart") || strings.HasSuffix(path, "/annotations/checksum/secret")
			usual := path == "/spec/type" && value == "ClusterIP" || strings.HasSuffix(path, "/imagePullPolicy") && value == "IfNotPresent"
			if _, known := theirs[path]; !known && !helm && !usual {
				t.Errorf("%s%s is %v in the chart, and not in the base", kind, path, value)
			}
		}
	}
}

// Two releases in one namespace share no name and no pod, and each of their manifests selects its own pods.
func TestTwoReleasesStayApart(t *testing.T) {
	for release, name := range map[string]string{"fanfare": "fanfare", "my-fanfare": "my-fanfare", "shop": "shop-fanfare"} {
		all, _, err := render(t, release, "secret: {existing: store}\ningress: {enabled: true, host: a.example, tlsSecret: tls}\n"+
			"httpRoute: {enabled: true, hostnames: [a.example], parentRefs: [{name: public}]}")
		if err != nil {
			t.Fatal(err)
		}
		for kind, o := range all {
			leaves := map[string]any{}
			flat("", o, leaves)
			if leaves["/metadata/name"] != name {
				t.Errorf("%s of %s is called %v", kind, release, leaves["/metadata/name"])
			}
			for path, value := range leaves {
				if strings.HasSuffix(path, "app.kubernetes.io/instance") && value != release {
					t.Errorf("%s%s of %s is %v", kind, path, release, value)
				}
			}
			selector := map[string]string{"Deployment": "/spec/selector/matchLabels", "PodDisruptionBudget": "/spec/selector/matchLabels", "Service": "/spec/selector"}[kind]
			if selector != "" && leaves[selector+"/app.kubernetes.io/instance"] != release {
				t.Errorf("%s of %s selects pods of others", kind, release)
			}
			for path := range leaves { // a selector that changes with the version cannot be updated
				if label, is := strings.CutPrefix(path, selector+"/app.kubernetes.io/"); is && label != "name" && label != "instance" {
					t.Errorf("%s of %s selects by %s", kind, release, label)
				}
			}
			if kind == "HTTPRoute" && leaves["/spec/rules/0/backendRefs/"+name+"/port"] == nil {
				t.Errorf("the HTTPRoute of %s sends elsewhere: %v", release, leaves)
			}
			if kind == "Ingress" && leaves["/spec/rules/0/http/paths/0/backend/service/name"] != name {
				t.Errorf("the Ingress of %s sends to %v", release, leaves["/spec/rules/0/http/paths/0/backend/service/name"])
			}
		}
		if all["Secret"] != nil {
			t.Error("a Secret is made beside the one that exists")
		}
	}
}

// Each value ends up where it should.
func TestValues(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for values, want := range map[string]map[string]any{
		"image: {repository: r.example/f, tag: 1.2.3}":             {"/spec/template/spec/containers/fanfare/image": "r.example/f:1.2.3"},
		"image: {repository: r.example/f, digest: " + digest + "}": {"/spec/template/spec/containers/fanfare/image": "r.example/f@" + digest},
		"replicas: 5": {"/spec/replicas": 5.0},
		"env: {FANFARE_TRUSTED_PROXIES: 10.0.0.0/8}": {"/spec/template/spec/containers/fanfare/env/FANFARE_TRUSTED_PROXIES/value": "10.0.0.0/8"},
		"env: {FANFARE_CHAT_MAX_BYTES: '8388608'}":   {"/spec/template/spec/containers/fanfare/env/FANFARE_CHAT_MAX_BYTES/value": "8388608"},
		"shutdownSeconds: 30":                        {"/spec/template/spec/terminationGracePeriodSeconds": 50.0, "/spec/template/spec/containers/fanfare/env/FANFARE_SHUTDOWN_TIMEOUT/value": "30s"},
		"apns: {keyID: A, teamID: B}": {
			"/spec/template/spec/containers/fanfare/env/FANFARE_APNS_KEY_ID/value":   "A",
			"/spec/template/spec/containers/fanfare/env/FANFARE_APNS_KEY_FILE/value": "/etc/fanfare/apns.p8",
			"/spec/template/spec/volumes/files/secret/items/1/key":                   "apns.p8",
		},
		"extraEnv: [{name: A, valueFrom: {fieldRef: {fieldPath: x}}}]": {"/spec/template/spec/containers/fanfare/env/A/valueFrom/fieldRef/fieldPath": "x"},
		"env: {FANFARE_TLS_CERT_FILE: /tls/crt, FANFARE_TLS_KEY_FILE: /tls/key}": {
			"/spec/template/spec/containers/fanfare/livenessProbe/httpGet/scheme":  "HTTPS",
			"/spec/template/spec/containers/fanfare/readinessProbe/httpGet/scheme": "HTTPS",
		},
		"extraEnv: [{name: FANFARE_TLS_CERT_FILE, value: /tls/crt}, {name: FANFARE_TLS_KEY_FILE, value: /tls/key}]": {
			"/spec/template/spec/containers/fanfare/livenessProbe/httpGet/scheme":  "HTTPS",
			"/spec/template/spec/containers/fanfare/readinessProbe/httpGet/scheme": "HTTPS",
		},
		"podLabels: {a: b}":                         {"/spec/template/metadata/labels/a": "b"},
		"podAnnotations: {a: b}":                    {"/spec/template/metadata/annotations/a": "b"},
		"nodeSelector: {a: b}":                      {"/spec/template/spec/nodeSelector/a": "b"},
		"tolerations: [{key: a}]":                   {"/spec/template/spec/tolerations/0/key": "a"},
		"topologySpreadConstraints: [{maxSkew: 1}]": {"/spec/template/spec/topologySpreadConstraints/0/maxSkew": 1.0},
		"affinity: {nodeAffinity: {a: b}}":          {"/spec/template/spec/affinity/nodeAffinity/a": "b"},
		"imagePullSecrets: [{name: a}]":             {"/spec/template/spec/imagePullSecrets/a/name": "a"},
		"resources: {limits: {memory: 2Gi}}":        {"/spec/template/spec/containers/fanfare/resources/limits/memory": "2Gi"},
	} {
		all, _, err := render(t, "fanfare", "{}")
		if err == nil {
			t.Fatalf("without URLs: %v", all)
		}
		all, _, err = render(t, "fanfare", values+"\nsecret: {existing: store}")
		if err != nil {
			t.Fatalf("%s: %v", values, err)
		}
		leaves := map[string]any{}
		flat("", all["Deployment"], leaves)
		for path, value := range want {
			if fmt.Sprint(leaves[path]) != fmt.Sprint(value) {
				t.Errorf("%s: %s is %v, want %v", values, path, leaves[path], value)
			}
		}
	}
	all, notes, err := render(t, "fanfare", "secret: {redisURL: 'redis://r', databaseURL: 'mysql://u:p@h/d'}")
	if err != nil || all["Secret"]["stringData"].(map[string]any)["admin-key"] != nil || !strings.Contains(notes, "only logged") ||
		!strings.Contains(notes, "-n push upgrade fanfare deploy/chart --reuse-values --set secret.adminKey=") || strings.Contains(notes, "entry admin-key") {
		t.Errorf("without a first key: %v, %v, %s", all["Secret"], err, notes)
	}
	leaves := map[string]any{}
	flat("", all["Deployment"], leaves)
	if _, named := leaves["/spec/template/spec/containers/fanfare/env/FANFARE_ADMIN_KEY_FILE/value"]; named {
		t.Error("a file is named that the Secret does not have")
	}
	for path := range leaves {
		if strings.Contains(path, "/volumes") || strings.Contains(path, "/volumeMounts") {
			t.Errorf("without files there is %s", path)
		}
	}
	if _, notes, err = render(t, "fanfare", "secret: {existing: a}"); err != nil || !strings.Contains(notes, "keys create") || strings.Contains(notes, "No first") {
		t.Errorf("with a first key: %v, %s", err, notes)
	}
	all, notes, err = render(t, "fanfare", "secret: {existing: a, noAdminKey: true}\nextraVolumes: [{name: apps, secret: {secretName: apps}}]\nextraVolumeMounts: [{name: apps, mountPath: /apps}]")
	if err != nil || !strings.Contains(notes, "entry admin-key into the Secret a,") {
		t.Fatal(err, notes)
	}
	clear(leaves)
	flat("", all["Deployment"], leaves)
	if leaves["/spec/template/spec/volumes/apps/secret/secretName"] != "apps" || leaves["/spec/template/spec/containers/fanfare/volumeMounts/apps/mountPath"] != "/apps" || leaves["/spec/template/spec/volumes/files/secret/secretName"] != nil {
		t.Errorf("volumes of one's own: %v", leaves)
	}
}

// What is wrong or missing is named.
func TestWrongValuesAreNamed(t *testing.T) {
	for values, want := range map[string]string{
		"{}":                              "secret.redisURL is needed",
		"secret: {redisURL: 'redis://r'}": "secret.databaseURL is needed",
		"secret: {redisURL: 'http://r'}":  "/secret/redisURL",
		"secret: {existing: a}\nenv: {FANFARE_CHAT_MAX_BYTES: 8388608}":                                "/env/FANFARE_CHAT_MAX_BYTES",
		"secret: {existing: a}\nenv: {FANFARE_REDIS_URL: 'redis://r'}":                                 "FANFARE_REDIS_URL",
		"secret: {existing: a}\npodAnnotations: {prometheus.io/scrape: true}":                          "/podAnnotations",
		"secret: {existing: a}\nreplica: 3":                                                            "replica",
		"secret: {existing: a}\nreplicas: two":                                                         "/replicas",
		"secret: {existing: a}\nimage: {digest: latest}":                                               "/image/digest",
		"secret: {existing: a}\napns: {keyID: A}":                                                      "apns.keyID and apns.teamID",
		"secret: {redisURL: 'redis://r', databaseURL: 'mysql://u:p@h/d'}\napns: {keyID: A, teamID: B}": "apns.key is needed",
		"secret: {existing: a}\ningress: {enabled: true}":                                              "ingress.host is needed",
		"secret: {existing: a}\ningress: {annotations: {a: 5}}":                                        "/ingress/annotations/a",
		"secret: {existing: a}\nhttpRoute: {enabled: true, hostnames: [a]}":                            "httpRoute.parentRefs is needed",
		"secret: {existing: a}\nhttpRoute: {enabled: true, parentRefs: [{name: a}]}":                   "httpRoute.hostnames is needed",
	} {
		if _, _, err := render(t, "fanfare", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

// The HTTPRoute and the Ingress are those of docs/proxies.md, and have what the values say.
func TestTheWaysInAreTheDocuments(t *testing.T) {
	const exists = "secret: {existing: a}\n"
	text, err := os.ReadFile("../../docs/proxies.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind, values := range map[string]string{
		"HTTPRoute": "httpRoute: {enabled: true, hostnames: [fanfare.example.com], parentRefs: [{name: public, namespace: gateways}]}",
		"Ingress":   "ingress: {enabled: true, className: nginx, host: fanfare.example.com, tlsSecret: fanfare-tls}",
	} {
		before, after, _ := strings.Cut(string(text), "\nkind: "+kind+"\n")
		_, version, _ := strings.Cut(before[strings.LastIndex(before, "```yaml"):], "\n")
		block, _, _ := strings.Cut(after, "```")
		want, got := map[string]any{}, map[string]any{}
		flat("", mustObject(t, version+"\nkind: "+kind+"\n"+block), want)
		all, _, err := render(t, "fanfare", exists+values)
		if err != nil {
			t.Fatal(err)
		}
		flat("", all[kind], got)
		for path, value := range want {
			if got[path] != value {
				t.Errorf("%s%s is %v, in the document %v", kind, path, got[path], value)
			}
		}
		for path, value := range got {
			if _, known := want[path]; !known && !strings.HasPrefix(path, "/metadata/labels/") {
				t.Errorf("%s%s is %v, and not in the document", kind, path, value)
			}
		}
		if len(want) < 10 {
			t.Errorf("the document has only %v", want)
		}
	}
	all, _, err := render(t, "shop", exists+"service: {port: 8080}\nhttpRoute: {enabled: true, hostnames: [a.example], parentRefs: [{name: g}], timeouts: null, annotations: {a: b}}\n"+
		"ingress: {enabled: true, host: a.example, annotations: {nginx.org/client-max-body-size: 5m}}")
	if err != nil {
		t.Fatal(err)
	}
	leaves := map[string]any{}
	flat("", all["HTTPRoute"], leaves)
	flat("", all["Ingress"], leaves)
	for path, want := range map[string]any{
		"/spec/rules/0/backendRefs/shop-fanfare/port": 8080.0, "/spec/rules/0/timeouts/request": nil, "/metadata/annotations/a": "b",
		"/spec/ingressClassName": nil, "/metadata/annotations/nginx.org/client-max-body-size": "5m",
	} {
		if leaves[path] != want {
			t.Errorf("%s is %v, want %v", path, leaves[path], want)
		}
	}
}
