package redisdb

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/redis/go-redis/v9"
)

// includePrefix begins a line that is replaced by another file.
const includePrefix = "-- @include "

// maxIncludeDepth stops files that include each other.
const maxIncludeDepth = 4

// Script is a Lua script that Redis knows by its hash. It is immutable.
type Script struct {
	name   string
	source string
	sha    string
}

// NewScript reads a script. A line `-- @include <path>` is replaced by that
// file of the same file system, or of this package (lua/clock.lua).
func NewScript(fsys fs.FS, name string) (*Script, error) {
	source, err := include(fsys, name, maxIncludeDepth)
	if err != nil {
		return nil, fmt.Errorf("read script %s: %w", name, err)
	}
	sum := sha1.Sum([]byte(source))
	return &Script{name: path.Base(name), source: source, sha: hex.EncodeToString(sum[:])}, nil
}

// MustScript is NewScript for scripts embedded in the program, where an error
// can only be a broken build: it panics.
func MustScript(fsys fs.FS, name string) *Script {
	s, err := NewScript(fsys, name)
	if err != nil {
		panic(err)
	}
	return s
}

// include reads a file and resolves its include lines.
func include(from fs.FS, name string, depth int) (string, error) {
	if depth == 0 {
		return "", fmt.Errorf("%s: too many nested includes", name)
	}
	text, err := fs.ReadFile(from, name)
	if err != nil {
		if text, err = fs.ReadFile(scripts, name); err != nil {
			return "", err
		}
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		other, ok := strings.CutPrefix(line, includePrefix)
		if !ok {
			out.WriteString(line)
			continue
		}
		part, err := include(from, strings.TrimSpace(other), depth-1)
		if err != nil {
			return "", err
		}
		out.WriteString(strings.TrimRight(part, "\n") + "\n")
	}
	return out.String(), nil
}

// Name is the file's name, for logs and metrics.
func (s *Script) Name() string { return s.name }

// Source is the Lua text with its includes.
func (s *Script) Source() string { return s.source }

// SHA is the hash by which Redis knows the script.
func (s *Script) SHA() string { return s.sha }

// MarshalBinary gives the script's hash, which is sent for it.
func (s *Script) MarshalBinary() ([]byte, error) { return []byte(s.sha), nil }

// String names the script in logs.
func (s *Script) String() string { return s.name }

// Cmd makes the command that runs the script, to hand to Share or Pipeline.
// Its argument for the hash is the script itself, by which it is found again
// when a server does not know it.
func (s *Script) Cmd(ctx context.Context, keys []string, args ...any) *redis.Cmd {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", s, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	if len(keys) > 0 {
		cmd.SetFirstKeyPos(3)
	}
	return cmd
}

// scriptOf finds the script of a command that Cmd made, else nil.
func scriptOf(cmd redis.Cmder) *Script {
	args := cmd.Args()
	if len(args) < 2 {
		return nil
	}
	s, _ := args[1].(*Script)
	return s
}
