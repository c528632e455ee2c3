package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
)

// toolName is the pattern that 2025-11-25 §Tools, "Tool Names" recommends.
var toolName = pattern.Later(`^[A-Za-z0-9_.-]{1,128}$`)

// judgeTool checks one entry of tools/list. It reports whether the input schema of the tool is a
// stub (see isStub).
func (t *talk) judgeTool(raw []byte, tool jsonrpc.Span) (stub bool) {
	return t.judgeToolAs(raw, tool, []string{"inputSchema"})
}

// schemaKeys has the names of the members that hold a tool's input schema in MCP and in dialects of
// MCP.
var schemaKeys = []string{"inputSchema", "params_schema", "parameters", "input_schema", "schema"}

// judgeToolAs does the same as judgeTool for a tool whose input schema is in one of the members
// named in keys.
func (t *talk) judgeToolAs(raw []byte, tool jsonrpc.Span, keys []string) (stub bool) {
	name, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, tool, "name"))
	seen := func(what string) string {
		return evidence("< "+t.e.redact(tool.Of(raw)), "# "+t.e.redact([]byte(what)))
	}
	if !toolName().MatchString(name) {
		t.find(ToolName, seen("the name has characters that some clients and models refuse"))
	}
	if jsonrpc.Find(raw, tool, "description").IsZero() {
		t.find(ToolUndescribed, seen("the description is missing"))
	}
	var input jsonrpc.Span
	for _, key := range keys {
		if input = jsonrpc.Find(raw, tool, key); !input.IsZero() {
			break
		}
	}
	if input.IsZero() {
		what := keys[0] + " is missing"
		for _, other := range schemaKeys {
			if !jsonrpc.Find(raw, tool, other).IsZero() {
				what += "; the schema is in " + other
			}
		}
		t.find(SchemaMissing, seen(what))
		return false
	}
	if jsonrpc.KindOf(raw, input) != '{' {
		t.find(SchemaInvalid, seen("the schema is not an object"))
		return false
	}
	if kind, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, input, "type")); kind == "" {
		t.find(SchemaEmpty, seen(`inputSchema does not say "type":"object"`))
	} else if stub = isStub(raw, input); stub {
		t.find(SchemaBare, seen(`inputSchema says "type":"object" and nothing else`))
	}
	if _, err := mirror.ParseParams(raw, input); err != nil {
		t.find(SchemaHeader, seen(err.Error()))
	}
	for _, at := range []jsonrpc.Span{input, jsonrpc.Find(raw, tool, "outputSchema")} {
		if at.IsZero() {
			continue
		}
		j := schemaJudge{raw: raw}
		j.dialect(at)
		j.schema(at, 0)
		j.compile(at)
		for code, what := range j.found {
			t.find(code, seen(what))
		}
	}
	return stub
}

// isStub reports whether a schema constrains nothing except its type.
func isStub(raw []byte, at jsonrpc.Span) bool {
	for m := range jsonrpc.Members(raw, at) {
		switch word, _ := jsonrpc.Text(raw, m.Key); word {
		case "type", "$schema", "$id", "title", "description":
		default:
			return false
		}
	}
	return true
}

// judgeStubs records the finding SchemaStub if tools have stubs as input schemas (see isStub). For
// a result of tools/list, it does so only if there are at least two tools, and all of them have
// stubs. For a manifest, one stub is enough. This finding replaces the finding SchemaBare.
func (t *talk) judgeStubs(sent string, stubs []string, tools int, manifest bool) {
	if len(stubs) == 0 || !manifest && (tools < 2 || len(stubs) < tools) {
		return
	}
	t.drafts = slices.DeleteFunc(t.drafts, func(d draft) bool { return d.code == SchemaBare })
	what := fmt.Sprintf("# %d of %d tools have such a schema", len(stubs), tools)
	t.find(SchemaStub, evidence("> "+sent, "< "+stubs[0], what))
}

// judgeManifest checks the tools in a result of initialize. Some servers send this result without a
// request.
func (t *talk) judgeManifest(raw []byte, all jsonrpc.Span, sent string) {
	var stubs []string
	tools := 0
	for tool := range jsonrpc.Elements(raw, all) {
		if tools++; tools > maxItems {
			break
		}
		if t.judgeToolAs(raw, tool, schemaKeys) {
			stubs = append(stubs, t.e.redact(tool.Of(raw)))
		}
	}
	t.judgeStubs(sent, stubs, tools, true)
}

// compiled limits the schemas that compile checks. compile ignores larger schemas.
var compiled = jsonrpc.Limits{Bytes: 1 << 20, Depth: schemaDepth, Tokens: 100_000}

// compile compiles a schema, unless it has a fault for which a compiler fails too: keywords of
// another dialect, or an external $ref.
func (j *schemaJudge) compile(at jsonrpc.Span) {
	if j.found[SchemaDialect] != "" || j.found[SchemaRef] != "" || jsonrpc.Valid(at.Of(j.raw), compiled) != nil {
		return
	}
	if _, err := schema.Compile(at.Of(j.raw)); err != nil {
		j.find(SchemaInvalid, err.Error())
	}
}

// schemaJudge walks through one schema. found maps each code to a description of the first fault
// with this code.
type schemaJudge struct {
	raw   []byte
	found map[string]string
}

func (j *schemaJudge) find(code, what string) {
	if j.found == nil {
		j.found = map[string]string{}
	}
	if _, had := j.found[code]; !had {
		j.found[code] = what
	}
}

// dialect checks the $schema of a root schema (2025-11-25 §Base, "JSON Schema Usage": the
// default is 2020-12).
func (j *schemaJudge) dialect(at jsonrpc.Span) {
	uri, ok := jsonrpc.Text(j.raw, jsonrpc.Find(j.raw, at, "$schema"))
	if !ok {
		return
	}
	uri = strings.TrimSuffix(uri, "#")
	for _, known := range []string{"2020-12/schema", "2019-09/schema", "draft-07/schema"} {
		if strings.HasSuffix(uri, known) {
			return
		}
	}
	j.find(SchemaDialect, "$schema names a dialect that few clients know: "+clip(uri))
}

// These maps have the keywords whose values contain schemas: in an object, in a list, or alone.
var (
	mapWords   = map[string]bool{"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true}
	listWords  = map[string]bool{"allOf": true, "anyOf": true, "oneOf": true, "prefixItems": true}
	innerWords = map[string]bool{
		"items": true, "additionalProperties": true, "not": true, "if": true, "then": true, "else": true,
		"contains": true, "propertyNames": true, "unevaluatedProperties": true, "unevaluatedItems": true,
	}
)

// schemaDepth is the depth to which a schema is checked.
const schemaDepth = 64

// schema looks in a schema, and in the schemas inside it, for what compiles but is a fault, and for
// keywords of other dialects.
func (j *schemaJudge) schema(at jsonrpc.Span, depth int) {
	if depth > schemaDepth || jsonrpc.KindOf(j.raw, at) != '{' {
		return
	}
	for m := range jsonrpc.Members(j.raw, at) {
		word, _ := jsonrpc.Text(j.raw, m.Key)
		kind := jsonrpc.KindOf(j.raw, m.Value)
		boolean := kind == 't' || kind == 'f'
		switch {
		case (word == "exclusiveMinimum" || word == "exclusiveMaximum") && boolean:
			j.find(SchemaDialect, word+" is a boolean, as in draft 4")
		case word == "nullable":
			j.find(SchemaDialect, "nullable is a keyword of OpenAPI 3.0, not of JSON Schema")
		case word == "required" && boolean:
			j.find(SchemaDialect, "required is a boolean, as in draft 3")
		case word == "enum" && kind == '[' && isEmpty(j.raw, m.Value):
			j.find(SchemaEmptyEnum, "enum is []")
		case word == "$ref" || word == "$dynamicRef":
			if ref, _ := jsonrpc.Text(j.raw, m.Value); !strings.HasPrefix(ref, "#") {
				j.find(SchemaRef, word+" is external: "+clip(ref))
			}
		case mapWords[word]:
			for p := range jsonrpc.Members(j.raw, m.Value) {
				j.schema(p.Value, depth+1)
			}
		case word == "items" && kind == '[':
			j.find(SchemaDialect, "items is a list; since 2020-12 use prefixItems")
		case listWords[word]:
			for s := range jsonrpc.Elements(j.raw, m.Value) {
				j.schema(s, depth+1)
			}
		case innerWords[word]:
			j.schema(m.Value, depth+1)
		}
	}
}

func isEmpty(raw []byte, list jsonrpc.Span) bool {
	for range jsonrpc.Elements(raw, list) {
		return false
	}
	return true
}
