package child

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// leastMajor is the oldest usable version: before it the append-only file was a single file, and an
// older server on a newer folder would not see the data.
const leastMajor = 7

// versionTimeout is how long a program may take to print its version.
const versionTimeout = 5 * time.Second

// Program is a server's program on this machine.
type Program struct {
	// Path is where it is.
	Path string
	// Product is "redis" or "valkey", and Version its version, such as "7.0.15".
	Product, Version string
}

// String is product and version, such as "redis 7.0.15".
func (p Program) String() string { return p.Product + " " + p.Version }

// Find looks in PATH for redis-server and valkey-server of version 7 or newer. If both are there, it
// takes the one that wrote the folder's data last, and otherwise redis-server. The error says why
// each of them cannot be used.
func Find(ctx context.Context, folder string) (Program, error) {
	var found []Program
	var missing []string
	for _, name := range []string{"redis-server", "valkey-server"} {
		p, err := look(ctx, name)
		if err != nil {
			missing = append(missing, err.Error())
			continue
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return Program{}, errors.New(strings.Join(missing, ", "))
	}
	if last, ok := lastWriter(folder); ok {
		for _, p := range found {
			if p.Product == last.Product {
				return p, nil
			}
		}
	}
	return found[0], nil
}

// versionLine is what the programs print, such as "Redis server v=7.0.15 sha=00000000:0".
var versionLine = regexp.MustCompile(`^(\w+) server v=(\d+(?:\.\d+)*)`)

func look(ctx context.Context, name string) (Program, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		return Program{}, fmt.Errorf("there is no %s on PATH", name)
	} else if err != nil {
		return Program{}, fmt.Errorf("%s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{}
	out, err := cmd.Output()
	if err != nil {
		return Program{}, fmt.Errorf("%s --version: %w", path, err)
	}
	match := versionLine.FindStringSubmatch(string(out))
	if match == nil {
		return Program{}, fmt.Errorf("%s --version does not print a version", path)
	}
	p := Program{Path: path, Product: strings.ToLower(match[1]), Version: match[2]}
	if major, _ := release(p.Version); major < leastMajor {
		return Program{}, fmt.Errorf("%s is version %s, and %d or newer is needed", path, p.Version, leastMajor)
	}
	return p, nil
}

// release is the part of a version that may change the form of the data.
func release(version string) (major, minor int) {
	parts := strings.Split(version, ".")
	major, _ = strconv.Atoi(parts[0])
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1])
	}
	return major, minor
}

// HasData reports whether a server has written data in the folder.
func HasData(folder string) (bool, error) {
	_, err := os.Stat(filepath.Join(folder, dataFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// lastWriter is the server that wrote the folder's data last, if one did.
func lastWriter(folder string) (Program, bool) {
	text, err := os.ReadFile(filepath.Join(folder, versionFile))
	if err != nil {
		return Program{}, false
	}
	product, version, ok := strings.Cut(strings.TrimSpace(string(text)), " ")
	return Program{Product: product, Version: version}, ok
}

// checkRelease refuses a server that is older than the one that wrote the data last. Another product
// is let through: what it cannot read it refuses by itself.
func checkRelease(folder string, p Program) error {
	last, ok := lastWriter(folder)
	if !ok || last.Product != p.Product {
		return nil
	}
	major, minor := release(p.Version)
	lastMajor, lastMinor := release(last.Version)
	if major > lastMajor || major == lastMajor && minor >= lastMinor {
		return nil
	}
	return fmt.Errorf("the data in %s was last written by %s, and %s is %s, which may not be able to read it; install %s or newer, or move the folder away to start with an empty Redis", folder, last, p.Path, p, last)
}
