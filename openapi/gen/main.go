// Command gen writes the OpenAPI document: swag reads the handlers' comments
// and the types of package api into Swagger 2.0, kin-openapi converts that to OpenAPI 3.0, and gen
// adds what neither can express, from the server's route table. It also writes the table of codes
// into docs/spec/http.md.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/swaggo/swag"

	"fanfare/handlers"
)

func main() {
	root := flag.String("root", "..", "the module's folder")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(root string) error {
	doc, err := generate(root)
	if err != nil {
		return err
	}
	name := filepath.Join(root, "docs", "spec", "http.md")
	contract, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	fresh, err := withCodes(string(contract))
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(root, "openapi", "openapi.json"), doc, 0o644),
		os.WriteFile(name, []byte(fresh), 0o644),
	)
}

// generate makes the document from the sources below root.
func generate(root string) ([]byte, error) {
	swagger, err := parse(root)
	if err != nil {
		return nil, fmt.Errorf("read comments: %w", err)
	}
	doc, err := convert(swagger)
	if err != nil {
		return nil, fmt.Errorf("convert to OpenAPI 3: %w", err)
	}
	if err := patch(doc, handlers.Routes()); err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	return encode(doc)
}

// parse runs swag over the handlers and the types of their answers.
func parse(root string) ([]byte, error) {
	p := swag.New(
		swag.SetDebugger(log.New(io.Discard, "", 0)),
		swag.SetStrict(true),
	)
	p.RequiredByDefault = true
	dirs := []string{filepath.Join(root, "handlers"), filepath.Join(root, "api")}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			return nil, err // swag would panic on a missing directory
		}
	}
	if err := p.ParseAPIMultiSearchDir(dirs, "document.go", 1); err != nil {
		return nil, err
	}
	swagger, err := json.Marshal(p.GetSwagger())
	return bytes.ReplaceAll(swagger, []byte(`api.`), nil), err
}

// convert turns Swagger 2.0 into OpenAPI 3.0.
func convert(swagger []byte) (*openapi3.T, error) {
	var v2 openapi2.T
	if err := json.Unmarshal(swagger, &v2); err != nil {
		return nil, err
	}
	return openapi2conv.ToV3(&v2)
}

func encode(doc *openapi3.T) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(doc)
	return out.Bytes(), err
}
