package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"fanfare/api"
	"fanfare/handlers/web"
)

// The names of shared parts in the document.
const (
	bearer      = "api_key"
	userBearer  = "user_token"
	ticketQuery = "ticket"
	problemJSON = "application/problem+json"
	problemRef  = "#/components/schemas/Problem"
)

// patch adds to the document what swag's comments cannot express or would have to repeat at every
// call: how keys are sent, the refusals that every call may answer, and the media type of problems.
func patch(doc *openapi3.T, routes []web.Route) error {
	routes = slices.DeleteFunc(routes, func(rt web.Route) bool { return undocumented(rt.Pattern) })
	for _, rt := range routes {
		if operation(doc, rt) == nil {
			return fmt.Errorf("%s %s has no comments", rt.Method, rt.Pattern)
		}
	}
	doc.OpenAPI = "3.0.3"
	doc.Servers = openapi3.Servers{{URL: "/", Description: "this server"}}
	doc.Components.SecuritySchemes = openapi3.SecuritySchemes{
		bearer: {Value: keyScheme()}, userBearer: {Value: userScheme()}, ticketQuery: {Value: ticketScheme()},
	}
	delete(doc.Components.Schemas, "Time") // written out where it is used
	doc.Components.Responses = sharedResponses()
	patchSchemas(doc.Components.Schemas)
	for _, rt := range routes {
		op := operation(doc, rt)
		patchOperation(op, rt)
		if err := patchAnswers(doc, op); err != nil {
			return err
		}
	}
	return nil
}

// undocumented reports whether a route is not part of the API: the documents, the redirects
// to them, the document itself, and the operators' console.
func undocumented(pattern string) bool {
	return strings.HasPrefix(pattern, "/console") || pattern == "/openapi.json" || pattern == "/" || pattern == "/llms.txt" || pattern == "/docs" || pattern == "/docs/*"
}

func operation(doc *openapi3.T, rt web.Route) *openapi3.Operation {
	item := doc.Paths.Value(rt.Pattern)
	if item == nil {
		return nil
	}
	return item.GetOperation(rt.Method)
}

func keyScheme() *openapi3.SecurityScheme {
	s := openapi3.NewSecurityScheme().WithType("http").WithScheme("bearer")
	s.Description = "An API key, as `fanfare keys create` prints it. A server on which no key was ever made needs none."
	return s
}

func userScheme() *openapi3.SecurityScheme {
	s := openapi3.NewSecurityScheme().WithType("http").WithScheme("bearer").WithBearerFormat("JWT")
	s.Description = "A user token. It gives access to the data of its own user."
	return s
}

func ticketScheme() *openapi3.SecurityScheme {
	s := openapi3.NewSecurityScheme().WithType("apiKey").WithIn(openapi3.ParameterInQuery).WithName("ticket")
	s.Description = "A ticket, made with a user token. It opens one stream or long poll within 60 s."
	return s
}

// patchAccess describes what a call accepts: an API key, a user token, a ticket.
func patchAccess(op *openapi3.Operation, rt web.Route) {
	may := func(scheme string) { op.Security.With(openapi3.NewSecurityRequirement().Authenticate(scheme)) }
	needs := "Needs a key with the scope `" + string(rt.Scope) + "`."
	switch {
	case rt.User == web.AnyUser:
		needs = "Needs a user token."
	case rt.Scope == web.AnyKey: // the description says what a key needs
		needs = ""
		fallthrough
	default:
		may(bearer)
	}
	with := ""
	if rt.User != "" {
		may(userBearer)
		with = " A user token"
	}
	if rt.Tickets() && rt.User != "" {
		may(ticketQuery)
		with += " or a ticket"
	}
	op.Description = strings.TrimSpace(op.Description + "\n\n" + needs)
	if rt.User != "" && rt.User != web.AnyUser {
		op.Description += with + " with the scope `" + string(rt.User) + "` is accepted for its own user."
	}
}

func patchOperation(op *openapi3.Operation, rt web.Route) {
	op.Security = openapi3.NewSecurityRequirements()
	if rt.Scope != "" {
		patchAccess(op, rt)
		share(op, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	}
	share(op, http.StatusForbidden, http.StatusMisdirectedRequest, http.StatusInternalServerError)
	if rt.Method != http.MethodGet { // without a body too: such calls refuse a body or a key
		share(op, http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if rt.MaxBody() > 0 || len(op.Parameters) > 0 {
		share(op, http.StatusUnprocessableEntity)
	}
	for _, p := range op.Parameters {
		patchParameter(p.Value)
		if p.Value.Name == "token" && strings.HasSuffix(op.OperationID, "Activity") { // the token of an activity is none of a device
			p.Value.Example = activityToken
		}
	}
	patchBody(op, rt)
}

// share adds the shared answers that the operation does not describe by itself.
func share(op *openapi3.Operation, statuses ...int) {
	for _, status := range statuses {
		if op.Responses.Status(status) == nil {
			op.Responses.Set(fmt.Sprint(status), &openapi3.ResponseRef{Ref: "#/components/responses/" + responseName(status)})
		}
	}
}

func responseName(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

// patchParameter adds the rules of identifiers, which swag cannot express.
func patchParameter(p *openapi3.Parameter) {
	if p.Schema != nil {
		bound(p.Schema.Value)
	}
	named := p.In == openapi3.ParameterInPath || p.In == openapi3.ParameterInQuery && p.Name == "user"
	if !named || p.Schema == nil {
		return
	}
	schema := p.Schema.Value
	p.Example = parameterExample(p.Name)
	if schema.Type.Is("integer") {
		p.Example = 7
		return
	}
	if p.Name == "token" {
		schema.Pattern = fmt.Sprintf("^([0-9a-fA-F]{2}){%d,%d}$", api.MinTokenHex/2, api.MaxTokenHex/2)
		return
	}
	chat, most := "", uint64(api.MaxIdentifier)
	if p.Name == "object" {
		chat = "(" + api.ChatObject("") + ")?"
	}
	if schema.MaxLength != nil { // the id of a job
		most = *schema.MaxLength
	}
	schema.Pattern = fmt.Sprintf("^%s[A-Za-z0-9._:@-]{1,%d}$", chat, most)
}

// patchBody adds an example that works unchanged and the largest size of the body.
func patchBody(op *openapi3.Operation, rt web.Route) {
	if op.RequestBody == nil || op.RequestBody.Value == nil {
		return
	}
	body := op.RequestBody.Value
	body.Extensions = nil // internal to the converter
	body.Description = strings.TrimSpace(fmt.Sprintf("%s (at most %d KiB)", body.Description, rt.MaxBody()>>10))
	if media := body.Content["application/json"]; media != nil {
		if media.Example = example(op.OperationID); media.Example == nil {
			media.Example = exampleOf(media.Schema)
		}
	}
}
