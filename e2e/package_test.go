package e2e

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

	"fanfare/store/storetest"

	"gopkg.in/yaml.v2"
)

// The linter's configuration is well-formed and of the form of version 2.
func TestLinterConfiguration(t *testing.T) {
	t.Parallel()
	var file struct {
		Version string `yaml:"version"`
		Linters struct {
			Enable []string `yaml:"enable"`
		} `yaml:"linters"`
	}
	if err := yaml.Unmarshal([]byte(storetest.RepositoryFile(t, ".golangci.yml")), &file); err != nil {
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
	storetest.SkipShort(t, "a build of the program")
	flags := regexp.MustCompile(`(?s)go build -trimpath -ldflags="([^"]+)"`).FindStringSubmatch(storetest.RepositoryFile(t, "Dockerfile"))
	if flags == nil {
		t.Fatal("the Dockerfile has no build line")
	}
	out := filepath.Join(t.TempDir(), "fanfare")
	build := exec.Command("go", "build", "-trimpath", "-ldflags="+strings.ReplaceAll(flags[1], "$VERSION", "v9.8.7"), "-o", out, "fanfare")
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
	text := storetest.RepositoryFile(t, "Dockerfile")
	_, final, _ := strings.Cut(text, "\nFROM gcr.io/distroless/static")
	for _, want := range []string{"USER 65532", `"healthcheck"]`, "ENTRYPOINT [", "STOPSIGNAL SIGTERM"} {
		if !strings.Contains(final, want) {
			t.Errorf("the final image lacks %s", want)
		}
	}
	version := regexp.MustCompile(`golang:(\d+\.\d+)`).FindStringSubmatch(text)
	if version == nil || !strings.Contains(storetest.RepositoryFile(t, "go.mod"), "\ngo "+version[1]) {
		t.Errorf("the Dockerfile builds with Go %v, go.mod wants another", version)
	}
}
