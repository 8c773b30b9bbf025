package e2e

import (
	"debug/elf"
	"os/exec"
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
	out := mustBuildShipped(t)
	said, err := exec.Command(out, "version").Output()
	if err != nil || !strings.HasPrefix(string(said), "fanfare "+shippedVersion+" ") {
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
