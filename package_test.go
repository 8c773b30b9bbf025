package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v2"
)

// mustRead gives a file of the repository.
func mustRead(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// service is what the tests look at in compose.yaml.
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

// The compose file is well-formed, its settings for fanfare are understood,
// and its Redis keeps what it is given.
func TestCompose(t *testing.T) {
	t.Parallel()
	var file struct {
		Name     string             `yaml:"name"`
		Services map[string]service `yaml:"services"`
		Volumes  map[string]any     `yaml:"volumes"`
	}
	if err := yaml.UnmarshalStrict([]byte(mustRead(t, "compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	fanfare := file.Services["fanfare"]
	var environ []string
	for name, value := range fanfare.Environment {
		environ = append(environ, name+"="+defaults(value))
	}
	c := mustParse(t, environ...)
	if c.loopback() || c.embedded() || !strings.HasPrefix(c.DatabaseURL, "mysql://") {
		t.Errorf("%+v", c)
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

// defaults resolves ${NAME:-value} as compose does when NAME is not set.
func defaults(s string) string {
	return regexp.MustCompile(`\$\{\w+:-([^}]*)\}`).ReplaceAllString(s, "$1")
}

// The linter's configuration is well-formed and of the form of version 2.
func TestLinterConfiguration(t *testing.T) {
	t.Parallel()
	var file struct {
		Version string `yaml:"version"`
		Linters struct {
			Enable []string `yaml:"enable"`
		} `yaml:"linters"`
	}
	if err := yaml.Unmarshal([]byte(mustRead(t, ".golangci.yml")), &file); err != nil {
		t.Fatal(err)
	}
	if file.Version != "2" || !slices.Contains(file.Linters.Enable, "gochecknoinits") || !slices.IsSorted(file.Linters.Enable) {
		t.Errorf("%+v", file)
	}
}

// What the Dockerfile builds is one static file that knows its version, so
// that an image without a shell or a C library can run it.
func TestDockerfileBuildsAStaticBinary(t *testing.T) {
	t.Parallel()
	flags := regexp.MustCompile(`(?s)go build -trimpath -ldflags="([^"]+)"`).FindStringSubmatch(mustRead(t, "Dockerfile"))
	if flags == nil {
		t.Fatal("the Dockerfile has no build line")
	}
	out := filepath.Join(t.TempDir(), "fanfare")
	build := exec.Command("go", "build", "-trimpath", "-ldflags="+strings.ReplaceAll(flags[1], "$VERSION", "v9.8.7"), "-o", out, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, said)
	}
	said, err := exec.Command(out, "version").Output()
	if err != nil || !strings.HasPrefix(string(said), "fanfare v9.8.7 ") {
		t.Errorf("version: %q %v", said, err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	file, err := elf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary asks for a dynamic loader")
		}
	}
}

// The image runs as a user without rights and asks its own health.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := mustRead(t, "Dockerfile")
	_, final, _ := strings.Cut(text, "\nFROM gcr.io/distroless/static")
	for _, want := range []string{"USER 65532", `"healthcheck"]`, "ENTRYPOINT [", "STOPSIGNAL SIGTERM"} {
		if !strings.Contains(final, want) {
			t.Errorf("the final image lacks %s", want)
		}
	}
	version := regexp.MustCompile(`golang:(\d+\.\d+)`).FindStringSubmatch(text)
	if version == nil || !strings.Contains(mustRead(t, "go.mod"), "\ngo "+version[1]) {
		t.Errorf("the Dockerfile builds with Go %v, go.mod wants another", version)
	}
}
