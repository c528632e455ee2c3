package admin

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// object is a JSON object in the OpenAPI document.
type object map[string]any

// schemas creates JSON Schemas for Go types. defs holds the schemas of structs by type name.
type schemas struct{ defs object }

// special holds the schemas of types for which reflection does not find the right schema.
var special = map[reflect.Type]object{
	reflect.TypeFor[time.Time]():       {"type": "string", "format": "date-time"},
	reflect.TypeFor[json.RawMessage](): {}, // any JSON
	reflect.TypeFor[Attributes]():      {"type": "object", "additionalProperties": object{"type": "string"}},
}

// of returns the schema of a type.
func (s *schemas) of(t reflect.Type) object {
	if x, ok := special[t]; ok {
		return x
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Struct:
		name := t.Name()
		if _, known := s.defs[name]; !known {
			s.defs[name] = object{} // a placeholder, so that a type that contains itself does not cause an endless recursion
			s.defs[name] = s.object(t)
		}
		return object{"$ref": "#/components/schemas/" + name}
	case reflect.Array:
		return object{"type": "array", "items": s.of(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return object{"type": "string"}
	}
	return object{"type": "integer"}
}

// object returns the schema of a struct. The tag doc of a field describes the member, and the tag
// enum lists its values.
func (s *schemas) object(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("json")
		if f.Anonymous || !f.IsExported() || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		x := maps.Clone(s.of(f.Type)) // a copy, because the schema of a special type has several users
		if about := f.Tag.Get("doc"); about != "" {
			x["description"] = about
		}
		if list := f.Tag.Get("enum"); list != "" {
			x["enum"] = strings.Split(list, ",")
		}
		properties[name] = x
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			required = append(required, name)
		}
	}
	out := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		slices.Sort(required)
		out["required"] = required
	}
	return out
}

var pathParameter = pattern.Later(`\{([a-z]+)\}`)

// pathAbout holds the descriptions of the path parameters.
var pathAbout = map[string]string{
	"name": "a server's name, a secret's at /secrets, or a project's at /projects", "tool": "a tool's name, as the server calls it; ~ stands before an empty name, and before ., .. and /, which can't be an element of a path", "id": "an id from an earlier answer", "number": "the number of a call",
}

// document returns the OpenAPI document.
func document(version string) object {
	s := &schemas{defs: object{}}
	problem := object{"description": "an error", "content": object{"application/problem+json": object{"schema": s.of(reflect.TypeFor[Problem]())}}}
	busy := object{
		"description": "a limit was reached, or what the request needs cannot be used now", "content": problem["content"],
		"headers": object{"Retry-After": object{"description": "the seconds after which to try again", "schema": object{"type": "integer"}}},
	}
	paths := object{}
	for _, x := range routes() {
		path, _ := paths[apiRoot+x.path].(object)
		if path == nil {
			path = object{}
			paths[apiRoot+x.path] = path
		}
		path[strings.ToLower(x.method)] = s.operation(&x)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title":       "Dragoman admin API",
			"version":     version,
			"description": "State and operations of a running `dragoman serve`. Members may be added to answers, so ignore those that you don't know.",
		},
		"paths": paths,
		"components": object{
			"schemas":   s.defs,
			"responses": object{"Problem": problem, "Busy": busy},
			"securitySchemes": object{
				"key":    object{"type": "http", "scheme": "bearer", "description": "an API key, whose role must include the operation's x-least-role; on the same machine also the key of the process, which `dragoman serve` writes to a file that only its user can read"},
				"header": object{"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "an API key"},
			},
		},
	}
}

// operation returns the OpenAPI description of one route.
func (s *schemas) operation(x *route) object {
	op := object{"operationId": x.name, "summary": x.summary}
	parameters := []object{}
	for _, m := range pathParameter().FindAllStringSubmatch(x.path, -1) {
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "description": pathAbout[m[1]], "schema": object{"type": "string"}})
	}
	for _, p := range x.parameters() {
		parameters = append(parameters, object{"name": p.name, "in": "query", "description": p.about, "schema": object{"type": p.kind}})
	}
	if len(x.events) > 0 {
		parameters = append(parameters, object{"name": "Last-Event-ID", "in": "header", "description": "continues after this event", "schema": object{"type": "string"}})
	}
	if x.named && x.method != http.MethodGet || x.matches {
		parameters = append(parameters, object{"name": "If-Match", "in": "header", "description": "the ETag of the text that this request changes; * means whatever it is", "schema": object{"type": "string"}})
	}
	if len(parameters) > 0 {
		op["parameters"] = parameters
	}
	if text, ok := x.body.(yamlText); ok {
		op["requestBody"] = object{"required": true, "content": object{yamlType: object{"schema": s.of(reflect.TypeOf(text))}}}
	} else if x.body != nil {
		op["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": s.of(reflect.TypeOf(x.body))}}}
	}
	answers := object{}
	problems := append([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, x.problems...)
	op["security"] = []object{{"key": []string{}}, {"header": []string{}}}
	if x.open {
		op["security"] = []object{{}, {"key": []string{}}, {"header": []string{}}}
	}
	op["x-least-role"] = x.least.String()
	for _, status := range problems {
		kind := "Problem"
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			kind = "Busy"
		}
		answers[strconv.Itoa(status)] = object{"$ref": "#/components/responses/" + kind}
	}
	status := x.status
	if status == 0 {
		status = http.StatusOK
	}
	answers[strconv.Itoa(status)] = s.answer(x)
	op["responses"] = answers
	return op
}

// answer returns the OpenAPI description of the response of a route after success.
func (s *schemas) answer(x *route) object {
	switch {
	case len(x.events) > 0:
		var list []string
		for _, e := range x.events {
			line := "`" + e.name + "`"
			if e.data != nil {
				t := reflect.TypeOf(e.data)
				s.of(t)
				line += " with a " + t.Name()
			}
			list = append(list, line)
		}
		list = append(list, "`"+EventEnd+"` at the end")
		return object{"description": "server-sent events: " + strings.Join(list, ", "), "content": object{"text/event-stream": object{}}}
	case x.kind != "":
		return object{"description": "the answer", "content": object{x.kind: object{}}}
	case x.answer == nil:
		return object{"description": "done"}
	}
	return object{"description": "the answer", "content": object{"application/json": object{"schema": s.of(reflect.TypeOf(x.answer))}}}
}
