package e2e

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"fanfare/store/storetest"

	"go.yaml.in/yaml/v3"
)

// The linter's configuration is well-formed and has the format of version 2.
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

// make faults and make clocks run every test that skipFaults skips.
func TestFaultsAreListed(t *testing.T) {
	t.Parallel()
	lists := regexp.MustCompile(`(?m)^(?:FAULTS|CLOCKS) = (.*)\$\$$`).FindAllStringSubmatch(storetest.RepositoryFile(t, "Makefile"), -1)
	if len(lists) != 2 {
		t.Fatalf("the Makefile has %q", lists)
	}
	listed := regexp.MustCompile(lists[0][1] + "$|" + lists[1][1] + "$")
	files, err := filepath.Glob("*_test.go")
	storetest.Must(t, err)
	skipping := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\) \{\n(?:\t[^\n]*\n)*?\tskipFaults\(t\)`)
	found := 0
	for _, file := range files {
		for _, test := range skipping.FindAllStringSubmatch(storetest.RepositoryFile(t, "e2e/"+file), -1) {
			if found++; !listed.MatchString(test[1]) {
				t.Errorf("%s is neither in FAULTS nor in CLOCKS of the Makefile", test[1])
			}
		}
	}
	if found < 7 {
		t.Errorf("only %d tests call skipFaults", found)
	}
}

// The passwords beside compose.yaml get neither into the repository nor into an image.
func TestPasswordsStayOutside(t *testing.T) {
	t.Parallel()
	for _, list := range []string{".gitignore", ".dockerignore"} {
		if !slices.Contains(strings.Split(storetest.RepositoryFile(t, list), "\n"), ".env") {
			t.Errorf("%s lacks .env", list)
		}
	}
}

// The Dockerfile builds one static file that knows its version, so that an image without a shell or
// a C library can run it.
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

// A release has a static binary for each platform, which knows its version, and correct checksums.
// It leaves nothing in the tree that git would see. For the other platforms the same line has only
// other names.
func TestRelease(t *testing.T) {
	t.Parallel()
	if !thorough() {
		t.Skip("compiles what lists the parts of a release, half a minute of the processors: .ci/run tries it")
	}
	root, dist := storetest.Root(t), t.TempDir()+"/dist"
	tree := func() string {
		out, err := exec.Command("git", "-C", root, "status", "--porcelain").Output()
		if err != nil {
			t.Skip("no git here")
		}
		return string(out)
	}
	plan, err := exec.Command("make", "-C", root, "-n", "release").Output()
	for _, want := range []string{"for p in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64;", "CGO_ENABLED=0", "dist/fanfare-"} {
		if err != nil || !strings.Contains(string(plan), want) {
			t.Errorf("make release lacks %s: %v", want, err)
		}
	}
	before, here := tree(), runtime.GOOS+"/"+runtime.GOARCH
	if out, err := exec.Command("make", "-C", root, "release", "DIST="+dist, "PLATFORMS="+here, "VERSION="+shippedVersion).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	name := "fanfare-" + shippedVersion + "-" + runtime.GOOS + "-" + runtime.GOARCH
	if said, err := exec.Command(dist+"/"+name, "version").Output(); err != nil || !strings.HasPrefix(string(said), "fanfare "+shippedVersion+" ") {
		t.Errorf("version: %q %v", said, err)
	}
	binary, err := os.ReadFile(dist + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(dist + "/" + name + ".cdx.json")
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		BOMFormat string `json:"bomFormat"`
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(list, &made); err != nil || made.BOMFormat != "CycloneDX" || made.Metadata.Component.Name != "fanfare" || made.Metadata.Component.Version != shippedVersion {
		t.Errorf("%+v: %v", made, err)
	}
	for _, c := range made.Components {
		if c.Name == "github.com/redis/go-redis/v9" && strings.HasPrefix(c.Version, "v9.") {
			made.Components = nil
		}
	}
	if made.Components != nil {
		t.Errorf("what it is made of lacks go-redis: %v", made.Components)
	}
	sums, err := os.ReadFile(dist + "/SHA256SUMS")
	if want := fmt.Sprintf("%x  %s\n%x  %s.cdx.json\n", sha256.Sum256(binary), name, sha256.Sum256(list), name); err != nil || string(sums) != want {
		t.Errorf("%q, want %q: %v", sums, want, err)
	}
	if after := tree(); after != before {
		t.Errorf("the tree has changed: %s", after)
	}
	if exec.Command("git", "-C", root, "check-ignore", "-q", "dist/fanfare").Run() != nil {
		t.Error("git does not ignore dist/")
	}
}

// systemd accepts the unit and rates it as hardened.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	text := storetest.RepositoryFile(t, "deploy/fanfare.service")
	for _, want := range []string{"DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes", "ExecReload=/bin/kill -HUP", "TimeoutStopSec=45", "KillMode=mixed", " AF_NETLINK\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the unit lacks %s", want)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze here")
	}
	unit := t.TempDir() + "/fanfare.service" // the binary need not be installed
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(text, "/usr/local/bin/fanfare", "/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", unit}, {"security", "--offline=true", "--threshold=20", unit}} {
		if out, err := exec.Command("systemd-analyze", args...).CombinedOutput(); err != nil || strings.Contains(string(out), "Unknown ") {
			t.Errorf("systemd-analyze %v: %v\n%s", args, err, out)
		}
	}
}

// The image runs as a user without rights and has a health check.
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
