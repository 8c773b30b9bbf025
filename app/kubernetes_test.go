package app

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/handlers/web"
	"fanfare/store/storetest"

	"go.yaml.in/yaml/v3"
)

// labels select pods.
type labels map[string]string

// manifest is what the test checks of a manifest for Kubernetes, whatever its kind. A secret and a
// service have no template.
type manifest struct {
	Kind     string
	Metadata struct {
		Name        string
		Labels      labels
		Annotations map[string]string
	}
	Resources  []string          // of a kustomization
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Replicas       int
		MaxUnavailable int `yaml:"maxUnavailable"`
		Selector       yaml.Node
		Ports          []struct {
			Name       string
			TargetPort string `yaml:"targetPort"`
			Port       int
		}
		Template struct {
			Metadata struct{ Labels labels }
			Spec     podSpec
		}
		Rules []struct {
			HTTP        struct{ Paths []ingressPath } // of an Ingress
			Matches     []routeMatch                  // these three of an HTTPRoute
			BackendRefs []backendRef                  `yaml:"backendRefs"`
			Timeouts    map[string]string
		}
	}
}

type ingressPath struct {
	Path     string
	PathType string `yaml:"pathType"`
	Backend  struct {
		Service struct {
			Name string
			Port struct{ Name string }
		}
	}
}

type routeMatch struct{ Path struct{ Type, Value string } }

type backendRef struct {
	Name string
	Port int
}

type podSpec struct {
	EnableServiceLinks *bool `yaml:"enableServiceLinks"`
	Grace              int   `yaml:"terminationGracePeriodSeconds"`
	Security           struct {
		RunAsNonRoot bool `yaml:"runAsNonRoot"`
		RunAsUser    int  `yaml:"runAsUser"`
	} `yaml:"securityContext"`
	Containers []container
	Volumes    []struct {
		Name   string
		Secret struct {
			SecretName string `yaml:"secretName"`
			Items      []struct{ Key, Path string }
		}
	}
}

type container struct {
	Image string
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	Env []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`
	Lifecycle struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	Security struct {
		ReadOnly bool `yaml:"readOnlyRootFilesystem"`
	} `yaml:"securityContext"`
	Mounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

const kubernetes = "deploy/kubernetes/"

// mustManifests reads the base by the kinds of its manifests.
func mustManifests(t testing.TB) map[string]manifest {
	t.Helper()
	read := func(name string) (m manifest) {
		if err := yaml.Unmarshal([]byte(storetest.RepositoryFile(t, kubernetes+name)), &m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return m
	}
	all := map[string]manifest{}
	for _, name := range read("kustomization.yaml").Resources {
		m := read(name)
		if m.Kind == "" || all[m.Kind].Kind != "" || m.Metadata.Name != "fanfare" {
			t.Errorf("%s is a second %q, or not called fanfare", name, m.Kind)
		}
		all[m.Kind] = m
	}
	return all
}

// The manifests fit each other and the program: names, ports, paths of probes, variables and
// secrets.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	all := mustManifests(t)
	if kinds := slices.Sorted(maps.Keys(all)); !slices.Equal(kinds, []string{"Deployment", "PodDisruptionBudget", "Secret", "Service"}) {
		t.Fatalf("the base has %v", kinds)
	}
	deployment, pod := all["Deployment"].Spec, all["Deployment"].Spec.Template.Spec
	c := pod.Containers[0]
	config := mustParse(t, c.environ(t, all["Secret"])...)
	if config.loopback() || config.embedded() || !strings.HasPrefix(config.DatabaseURL, "mysql://") {
		t.Errorf("%+v", config)
	}
	c.checkPorts(t, config, all["Service"])
	c.checkFiles(t, config, pod, all["Secret"])

	own := deployment.Template.Metadata.Labels
	for _, kind := range []string{"Deployment", "PodDisruptionBudget", "Service"} {
		if selected := all[kind].selected(t); len(own) == 0 || !maps.Equal(selected, own) {
			t.Errorf("%s selects %v, the pods are %v", kind, selected, own)
		}
	}
	if budget := all["PodDisruptionBudget"].Spec.MaxUnavailable; budget < 1 || budget >= deployment.Replicas {
		t.Errorf("%d of %d pods may be away", budget, deployment.Replicas)
	}
	stops := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds)*time.Second + config.ShutdownTimeout
	if grace := time.Duration(pod.Grace) * time.Second; grace <= stops || stops == config.ShutdownTimeout {
		t.Errorf("a stop takes %v and may take %v", stops, grace)
	}
	if !pod.Security.RunAsNonRoot || !c.Security.ReadOnly || !strings.Contains(storetest.RepositoryFile(t, "Dockerfile"), "\nUSER "+strconv.Itoa(pod.Security.RunAsUser)+":") {
		t.Errorf("the pod runs as another user than the image: %+v", pod.Security)
	}
	// Kubernetes would add such a variable for a service fanfare-redis.
	if _, err := parseConfig([]string{"FANFARE_REDIS_PORT=tcp://10.0.0.1:6379"}); err == nil || pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Errorf("the variables of a Service: %v", err)
	}
	if _, err := exec.LookPath("kubectl"); err != nil {
		return
	}
	built, err := exec.Command("kubectl", "kustomize", storetest.Root(t)+"/"+kubernetes).CombinedOutput()
	if err != nil || strings.Count("\n"+string(built), "\nkind: ") != len(all) {
		t.Errorf("kubectl kustomize: %v\n%s", err, built)
	}
}

// The route of a Gateway and the Ingress of docs/proxies.md send to the Service of the base. The annotations for
// controllers let them wait as long as a long poll, and take the largest body.
func TestIngress(t *testing.T) {
	t.Parallel()
	text := storetest.RepositoryFile(t, "docs/proxies.md")
	shown := map[string]manifest{}
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		var m manifest
		storetest.Must(t, yaml.Unmarshal([]byte(block[1]), &m))
		shown[m.Kind] = m
	}
	if len(shown) != 2 {
		t.Fatalf("docs/proxies.md has %v", slices.Collect(maps.Keys(shown)))
	}
	service := mustManifests(t)["Service"]
	for _, p := range shown["Ingress"].Spec.Rules[0].HTTP.Paths {
		if to := p.Backend.Service; p.Path != "/v1/" || p.PathType != "Prefix" || to.Name != service.Metadata.Name || to.Port.Name != service.Spec.Ports[0].Name {
			t.Errorf("the Ingress sends %+v, the service is %+v", p, service)
		}
	}
	route := shown["HTTPRoute"].Spec.Rules[0]
	if to, path := route.BackendRefs[0], route.Matches[0].Path; path.Type != "PathPrefix" || path.Value != "/v1" || to.Name != service.Metadata.Name || to.Port != service.Spec.Ports[0].Port {
		t.Errorf("the Gateway sends %+v, the service is %+v", route, service)
	}
	if route.Timeouts["request"] != "0s" {
		t.Errorf("the Gateway ends streams: %v", route.Timeouts)
	}
	waits := regexp.MustCompile("`[a-z./]+/(?:proxy-read-timeout|timeout-server): \"?(\\d+)s?\"?`").FindAllStringSubmatch(text, -1)
	for _, wait := range waits {
		if seconds, _ := strconv.Atoi(wait[1]); time.Duration(seconds)*time.Second < api.MaxPollWait+10*time.Second {
			t.Errorf("too short: %s", wait[0])
		}
	}
	sizes := regexp.MustCompile("`[a-z./]+/[a-z-]*body-size: (\\d+)m`").FindAllStringSubmatch(text, -1)
	for _, size := range sizes {
		if mib, _ := strconv.Atoi(size[1]); mib<<20 <= api.MaxBatchBody {
			t.Errorf("too small: %s", size[0])
		}
	}
	if len(waits) != 3 || len(sizes) != 2 {
		t.Errorf("%d times and %d sizes", len(waits), len(sizes))
	}
}

// environ is the environment of the container; values of the secret are its examples.
func (c container) environ(t testing.TB, secret manifest) (out []string) {
	t.Helper()
	for _, v := range c.Env {
		if from := v.ValueFrom.SecretKeyRef; from.Key != "" {
			if v.Value = secret.StringData[from.Key]; from.Name != secret.Metadata.Name || v.Value == "" {
				t.Errorf("%s comes from %s of %s, which is not there", v.Name, from.Key, from.Name)
			}
		}
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

// checkPorts compares ports and probes with the address on which the program listens, and with its
// routes.
func (c container) checkPorts(t testing.TB, config *config, service manifest) {
	t.Helper()
	port := c.Ports[0]
	if !strings.HasSuffix(config.Addr, ":"+strconv.Itoa(port.ContainerPort)) || service.Spec.Ports[0].TargetPort != port.Name {
		t.Errorf("the program listens on %s, the container opens %+v, the service sends to %s", config.Addr, port, service.Spec.Ports[0].TargetPort)
	}
	for path, p := range map[string]probe{"/healthz": c.Liveness, "/readyz": c.Readiness} {
		served := slices.ContainsFunc(handlers.Routes(), func(rt web.Route) bool { return rt.Method == "GET" && rt.Pattern == p.HTTPGet.Path })
		if p.HTTPGet.Path != path || p.HTTPGet.Port != port.Name || !served {
			t.Errorf("the probe of %s asks %+v", path, p.HTTPGet)
		}
	}
}

// checkFiles finds the files that the variables name in the secret that is mounted.
func (c container) checkFiles(t testing.TB, config *config, pod podSpec, secret manifest) {
	t.Helper()
	dir, name, _ := strings.Cut(strings.TrimPrefix(config.AdminKey, c.Mounts[0].MountPath), "/")
	volume := pod.Volumes[0]
	if dir != "" || volume.Name != c.Mounts[0].Name || volume.Secret.SecretName != secret.Metadata.Name {
		t.Errorf("%s is not in the volume %+v at %+v", config.AdminKey, volume, c.Mounts)
	}
	item := volume.Secret.Items[0]
	if item.Path != name || secret.StringData[item.Key] == "" {
		t.Errorf("the volume has %+v, not %s", item, name)
	}
}

// selected are the labels of the pods that the manifest is about.
func (m manifest) selected(t testing.TB) (l labels) {
	t.Helper()
	var of struct {
		Match labels `yaml:"matchLabels"`
	}
	if m.Spec.Selector.Decode(&of) == nil && of.Match != nil {
		return of.Match
	}
	storetest.Must(t, m.Spec.Selector.Decode(&l)) // a Service has the labels themselves
	return l
}
