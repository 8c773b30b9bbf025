package storetest

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Root is the root folder of this module.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

// RepositoryFile is the text of a file of this module. The name is relative to the root.
func RepositoryFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Lines is a writer that can be read while others write to it. The zero value is empty and ready to
// use.
type Lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write keeps p.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String is everything that was written so far.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
