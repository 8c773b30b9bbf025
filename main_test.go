package main

import (
	"bytes"
	"io/fs"
	"os"
	"testing"

	"fanfare/docs/site"
)

// The program has each file of the repository that the site serves, as it is now.
func TestTheProgramHasTheDocuments(t *testing.T) {
	t.Parallel()
	here := os.DirFS(".")
	names, err := site.Files(here)
	if err != nil || len(names) < 35 {
		t.Fatalf("%d files were found: %v", len(names), err)
	}
	for _, name := range names {
		want, err := fs.ReadFile(here, name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := documents.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not in the program: %v", name, err)
		}
	}
}
