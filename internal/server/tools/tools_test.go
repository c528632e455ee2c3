package tools

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

func TestSchema(t *testing.T) {
	type in struct {
		Name string `json:"name" jsonschema:"A name."`
		Size int    `json:"size,omitempty"`
	}
	schema := Schema[in](func(p map[string]*jsonschema.Schema) { p["size"].Minimum = jsonschema.Ptr(1.0) })
	got, err := json.Marshal(schema)
	want := `{"type":"object","properties":{"name":{"type":"string","description":"A name."},"size":{"type":"integer","minimum":1}},"required":["name"],"additionalProperties":false}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	if text := Schema[string](nil); text.Type != "string" {
		t.Errorf("%+v", text)
	}
	defer func() {
		if recover() == nil {
			t.Error("a type without a schema does not panic")
		}
	}()
	Schema[chan int](nil)
}
