package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"fanfare/api"
)

// AppEntry is one app of the apps file (docs/configuration.md), for the sender of its platform.
type AppEntry struct {
	Platform api.Platform
	text     json.RawMessage
	dir      string // of the apps file
	place    string // of the entry, for errors
}

// Decode reads the entry into a struct whose fields have the entry's names. An unknown name is an
// error: it is probably misspelt, and a key under a misspelt name would be ignored.
func (e *AppEntry) Decode(into any) error { return decodeStrictly(e.text, into) }

// Path is where a file is that the entry names: names are relative to the apps file.
func (e *AppEntry) Path(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(e.dir, file)
}

// Wrong joins the mistakes of the entry, each with the entry's place; nil if there are none. An error
// begins with the name of its field.
func (e *AppEntry) Wrong(errs ...error) error {
	var all []error
	for _, err := range errs {
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", e.place, err))
		}
	}
	return errors.Join(all...)
}

// ReadEntries reads the entries of one platform. Of each, read returns the app, its name, and everything that
// is wrong. No two entries may have the same name. The error names every mistake.
func ReadEntries[F, A any](entries []AppEntry, read func(*AppEntry, *F) (app A, name string, wrong []error)) ([]A, error) {
	var apps []A
	var errs []error
	seen := map[string]bool{}
	for i := range entries {
		e, file := &entries[i], new(F)
		if err := e.Decode(file); err != nil {
			errs = append(errs, e.Wrong(err))
			continue
		}
		app, name, wrong := read(e, file)
		if seen[name] {
			wrong = append(wrong, fmt.Errorf("%s is there twice", name))
		}
		seen[name] = true
		apps, errs = append(apps, app), append(errs, e.Wrong(wrong...))
	}
	return apps, errors.Join(errs...)
}

// Configure lets a sender read its configuration again, with the apps of the apps file, unless file
// is "". The sender takes over all of it, or, with an error that names every mistake, nothing (W4).
// variable is the one that names the file.
func Configure(s Sender, variable, file string) error {
	apps, unreadable := readApps(variable, file)
	take, wrong := s.Prepare(apps)
	if err := errors.Join(unreadable, wrong); err != nil {
		return err
	}
	take()
	return nil
}

// readApps reads the apps file. With an error, the apps are those that can be read.
func readApps(variable, file string) ([]AppEntry, error) {
	if file == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: read apps: %w", variable, err)
	}
	var doc struct {
		Apps []json.RawMessage `json:"apps"`
	}
	err = decodeStrictly(raw, &doc)
	if err == nil && len(doc.Apps) == 0 {
		err = errors.New("no apps")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", variable, file, err)
	}
	var apps []AppEntry
	var errs []error
	for i, text := range doc.Apps {
		e := AppEntry{text: text, dir: filepath.Dir(file), place: fmt.Sprintf("%s: %s: apps[%d]", variable, file, i)}
		e.Platform = api.PlatformAPNs
		if err := json.Unmarshal(text, &struct {
			Platform *api.Platform `json:"platform"`
		}{&e.Platform}); err != nil {
			errs = append(errs, e.Wrong(err))
			continue
		}
		apps = append(apps, e)
	}
	return apps, errors.Join(errs...)
}

// decodeStrictly reads one JSON value without unknown names.
func decodeStrictly(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return nil
}
