package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/handlers/web"
	"fanfare/openapi"
	"fanfare/store/storetest"
)

// load reads the committed document.
func load() (*openapi3.T, error) { return openapi3.NewLoader().LoadFromData(openapi.JSON()) }

// loadOnce reads the document for all tests that change nothing in it.
var loadOnce = sync.OnceValues(load)

// mustLoad returns the committed document. The tests share it and must not change it.
func mustLoad(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := loadOnce()
	if err != nil {
		t.Fatalf("read openapi.json: %v", err)
	}
	return doc
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	t.Run("regenerating changes nothing", func(t *testing.T) {
		t.Parallel()
		fresh, err := generate("../..")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(fresh, openapi.JSON()) {
			t.Errorf("openapi.json is stale: run go generate ./openapi\n%s", firstDifference(string(openapi.JSON()), string(fresh)))
		}
	})
	t.Run("names the missing comment", func(t *testing.T) {
		t.Parallel()
		doc, err := load()
		if err != nil {
			t.Fatal(err)
		}
		err = patch(doc, append(handlers.Routes(), web.Route{Method: "GET", Pattern: "/v1/nobody-wrote-me"}))
		if err == nil || !strings.Contains(err.Error(), "GET /v1/nobody-wrote-me has no comments") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("names what it cannot read", func(t *testing.T) {
		t.Parallel()
		if _, err := generate(t.TempDir()); err == nil || !strings.Contains(err.Error(), "read comments") {
			t.Errorf("got %v", err)
		}
	})
}

// firstDifference shows the first line in which two documents differ.
func firstDifference(a, b string) string {
	old, fresh := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(old), len(fresh)) {
		if old[i] != fresh[i] {
			return "- " + old[i] + "\n+ " + fresh[i]
		}
	}
	return "one of them ends early"
}

func TestDocument(t *testing.T) {
	t.Parallel()
	t.Run("is a valid OpenAPI 3.0.3 document with valid examples", func(t *testing.T) {
		t.Parallel()
		doc, err := load()
		if err != nil {
			t.Fatal(err)
		}
		if doc.OpenAPI != "3.0.3" {
			t.Errorf("openapi: %s", doc.OpenAPI)
		}
		if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation(), openapi3.EnableSchemaDefaultsValidation()); err != nil {
			t.Error(err)
		}
	})
	t.Run("has every route but the page and itself, and no other", func(t *testing.T) {
		t.Parallel()
		documented, served := operations(mustLoad(t)), map[string]bool{}
		for _, rt := range handlers.Routes() {
			name := rt.Method + " " + rt.Pattern
			served[name] = true
			if documented[name] == nil && !undocumented(rt.Pattern) {
				t.Errorf("%s is served but not documented", name)
			}
		}
		for name := range documented {
			if !served[name] {
				t.Errorf("%s is documented but not served", name)
			}
		}
	})
	t.Run("leaves out only the page and itself", func(t *testing.T) {
		t.Parallel()
		for _, rt := range handlers.Routes() {
			if undocumented(rt.Pattern) && !strings.HasPrefix(rt.Pattern, "/docs") && !strings.HasPrefix(rt.Pattern, "/console") && rt.Pattern != "/" && rt.Pattern != "/openapi.json" && rt.Pattern != "/llms.txt" {
				t.Errorf("%s is left out", rt.Pattern)
			}
		}
	})
}

// operations lists the document's operations as "METHOD /path".
func operations(doc *openapi3.T) map[string]*openapi3.Operation {
	out := map[string]*openapi3.Operation{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			out[method+" "+path] = op
		}
	}
	return out
}

func TestOperations(t *testing.T) {
	t.Parallel()
	doc := mustLoad(t)
	all := operations(doc)
	for _, rt := range handlers.Routes() {
		if undocumented(rt.Pattern) {
			continue
		}
		t.Run(rt.Method+" "+rt.Pattern, func(t *testing.T) {
			t.Parallel()
			op := all[rt.Method+" "+rt.Pattern]
			if op == nil {
				t.Fatal("not documented")
			}
			checkWords(t, op)
			checkSecurity(t, op, rt)
			checkParameters(t, op, rt)
			checkAnswers(t, op, rt)
			checkBody(t, op, rt)
		})
	}
}

// checkWords requires the texts that people read first: summary, tags and id.
func checkWords(t *testing.T, op *openapi3.Operation) {
	t.Helper()
	if op.Summary == "" || op.OperationID == "" || len(op.Tags) != 1 {
		t.Errorf("summary %q, id %q, tags %v", op.Summary, op.OperationID, op.Tags)
	}
}

// checkSecurity requires that the document names keys, user tokens and tickets exactly for the calls
// that accept them.
func checkSecurity(t *testing.T, op *openapi3.Operation, rt web.Route) {
	t.Helper()
	byUserAlone := rt.User == web.AnyUser
	for scheme, want := range map[string]bool{bearer: rt.Scope != "" && !byUserAlone, userBearer: rt.User != "", ticketQuery: rt.Tickets() && rt.User != ""} {
		if has := slices.ContainsFunc(*op.Security, func(r openapi3.SecurityRequirement) bool { return r[scheme] != nil }); has != want {
			t.Errorf("security %v; %s: want %v", op.Security, scheme, want)
		}
	}
	if rt.User != "" && !byUserAlone && !strings.Contains(op.Description, "`"+string(rt.User)+"`") {
		t.Errorf("does not name the scope %s of user tokens", rt.User)
	}
	if rt.Scope != "" && rt.Scope != web.AnyKey && !byUserAlone && !strings.Contains(op.Description, "`"+string(rt.Scope)+"`") {
		t.Errorf("does not name the scope %s", rt.Scope)
	}
}

// checkParameters requires each name in the pattern as a required parameter, and an Idempotency-Key
// for every POST whose answer is not a secret.
func checkParameters(t *testing.T, op *openapi3.Operation, rt web.Route) {
	t.Helper()
	for _, name := range regexp.MustCompile(`{(\w+)}`).FindAllStringSubmatch(rt.Pattern, -1) {
		p := op.Parameters.GetByInAndName("path", name[1])
		if p == nil || !p.Required || p.Schema.Value.Pattern == "" && p.Schema.Value.Min == nil {
			t.Errorf("path parameter %s is missing or without a rule", name[1])
		}
	}
	if key := op.Parameters.GetByInAndName("header", "Idempotency-Key"); (key != nil) != (rt.Method == "POST" && !slices.Contains([]string{"postToken", "postTicket", "postKey", "postWebhookSecret"}, op.OperationID)) {
		t.Errorf("Idempotency-Key documented: %v", key != nil)
	}
}

// checkAnswers requires problems to be problem+json, and every common refusal to be listed.
func checkAnswers(t *testing.T, op *openapi3.Operation, rt web.Route) {
	t.Helper()
	for status, r := range op.Responses.Map() {
		for media, content := range r.Value.Content {
			isProblem := content.Schema.Ref == problemRef
			if isProblem != (media == problemJSON) {
				t.Errorf("%s: %s with schema %s", status, media, content.Schema.Ref)
			}
		}
	}
	want := []int{403, 421, 500}
	if rt.Scope != "" {
		want = append(want, 401, 429, 503)
	}
	if rt.Method != "GET" {
		want = append(want, 400, 413, 415, 422)
	}
	for _, status := range want {
		if op.Responses.Status(status) == nil {
			t.Errorf("does not document %d", status)
		}
	}
}

// checkBody requires an example of every body that a call needs.
func checkBody(t *testing.T, op *openapi3.Operation, rt web.Route) {
	t.Helper()
	if op.RequestBody == nil {
		if rt.MaxBody() > 0 {
			t.Error("takes a body that is not documented")
		}
		return
	}
	media := op.RequestBody.Value.Content["application/json"]
	if media == nil {
		t.Fatal("has no example of its body")
	}
	checkExample(t, "the body", media.Example)
}

func TestProblems(t *testing.T) {
	t.Parallel()
	doc := mustLoad(t)
	t.Run("times are date-times", func(t *testing.T) {
		t.Parallel()
		created := doc.Components.Schemas["EventType"].Value.Properties["created_at"].Value
		if created.Format != "date-time" || !created.Type.Is("string") {
			t.Errorf("created_at is %v %s", created.Type, created.Format)
		}
	})
	t.Run("no name of a Go package is left", func(t *testing.T) {
		t.Parallel()
		for name := range doc.Components.Schemas {
			if strings.Contains(name, ".") {
				t.Errorf("schema %s", name)
			}
		}
		if !json.Valid(openapi.JSON()) {
			t.Error("the document is not JSON")
		}
	})
}

// The contract has every code that the server answers with, and what the code says about it.
func TestCodesAreInTheContract(t *testing.T) {
	t.Parallel()
	contract := storetest.RepositoryFile(t, "docs/spec/http.md")
	fresh, err := withCodes(contract)
	if err != nil {
		t.Fatal(err)
	}
	if fresh != contract {
		t.Errorf("docs/spec/http.md is stale: run go generate ./openapi\n%s", firstDifference(contract, fresh))
	}
	if _, err := withCodes("no table"); err == nil {
		t.Error("a contract without a table is taken")
	}
	for _, code := range mustLoad(t).Components.Schemas["Code"].Value.Enum {
		if m := api.MeaningOf(api.Code(code.(string))); m.About == "" || !strings.Contains(contract, fmt.Sprintf("| %d | `%s` | ", m.Status, code)) {
			t.Errorf("%s is not in the table of codes", code)
		}
	}
	for _, code := range api.Codes() {
		if about := api.MeaningOf(code).About; about == "" || strings.ContainsAny(about, "|\n") || strings.HasSuffix(about, ".") {
			t.Errorf("%s: %q does not fit into a table", code, about)
		}
	}
}
