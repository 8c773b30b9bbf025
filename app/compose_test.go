package app

import (
	"regexp"
	"strings"
	"testing"

	"fanfare/store/storetest"

	"go.yaml.in/yaml/v3"
)

// service is the part of a service in compose.yaml that the tests check.
type service struct {
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Healthcheck map[string]any    `yaml:"healthcheck"`
	DependsOn   map[string]any    `yaml:"depends_on"`
	Volumes     []string          `yaml:"volumes"`
	Grace       string            `yaml:"stop_grace_period"`
	Build       string            `yaml:"build"`
	Image       string            `yaml:"image"`
	Ports       []string          `yaml:"ports"`
	Restart     string            `yaml:"restart"`
	ReadOnly    bool              `yaml:"read_only"`
	CapDrop     []string          `yaml:"cap_drop"`
	Security    []string          `yaml:"security_opt"`
}

// The compose file is well-formed, its settings for fanfare are valid, and its Redis keeps its
// data.
func TestCompose(t *testing.T) {
	t.Parallel()
	var file struct {
		Name     string             `yaml:"name"`
		Services map[string]service `yaml:"services"`
		Volumes  map[string]any     `yaml:"volumes"`
	}
	text := storetest.RepositoryFile(t, "compose.yaml")
	if strings.Contains(text, ":-") || strings.Count(text, "PASSWORD:?}") != 5 {
		t.Error("a password has a value that everybody knows, or there are others than the five")
	}
	strict := yaml.NewDecoder(strings.NewReader(text))
	strict.KnownFields(true)
	if err := strict.Decode(&file); err != nil {
		t.Fatal(err)
	}
	fanfare := file.Services["fanfare"]
	var environ []string
	for name, value := range fanfare.Environment {
		environ = append(environ, name+"="+given(value))
	}
	c := mustParse(t, environ...)
	if c.loopback() || c.embedded() || !strings.HasPrefix(c.DatabaseURL, "mysql://") {
		t.Errorf("%+v", c)
	}
	for _, s := range file.Services {
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("port %s is open to others", port)
			}
		}
	}
	redis := strings.Join(file.Services["redis"].Command, " ")
	for _, want := range []string{"--maxmemory-policy noeviction", "--appendonly yes"} {
		if !strings.Contains(redis, want) {
			t.Errorf("redis runs without %s: %s", want, redis)
		}
	}
	for name := range fanfare.DependsOn {
		if file.Services[name].Healthcheck == nil || len(file.Services[name].Volumes) == 0 {
			t.Errorf("%s has no health check or no volume", name)
		}
	}
}

// given resolves ${NAME:?} as compose does when NAME is set.
func given(s string) string {
	return regexp.MustCompile(`\$\{\w+:\?\}`).ReplaceAllString(s, "given")
}
