package requirements

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
)

func TestMarkdown(t *testing.T) {
	r := start(t, newest)
	r.example()
	var out exportOut
	r.OK("export_items", args{"format": "markdown", "root": "EP-001"}, &out)
	for _, want := range []string{
		"## EP-001 Book a meeting room\n\n*epic, in progress, high priority*\n\nEmployees find",
		"### US-002 As an employee",
		"#### AC-004 A room",
		"##### REQ-005 A booking is confirmed within 5 seconds\n\n*non functional requirement, approved, high priority*\n\n- depends on REQ-003\n",
		"> **CM-001** Ines (",
	} {
		if !strings.Contains(out.Content, want) {
			t.Errorf("the export lacks %q", want)
		}
	}
	if strings.Contains(out.Content, "EP-002") || out.Items != 23 {
		t.Errorf("%d items:\n%s", out.Items, out.Content)
	}
	r.Refused("export_items", args{"format": "word"}, "format")
	r.Refused("export_items", args{"format": "markdown", "root": "EP-099"}, "does not exist")
}

// TestReqIF checks that all references in an exported file lead to an identifier, that identifiers
// are valid and unique, and that the hierarchy has each item once.
func TestReqIF(t *testing.T) {
	r := start(t, newest)
	r.example()
	r.OK("create_item", args{"kind": "epic", "title": `<&">`, "description": "two\nlines"}, nil)
	var out exportOut
	r.OK("export_items", args{"format": "reqif"}, &out)

	ids, refs, count := map[string]string{}, map[string][]string{}, map[string]int{}
	var path []string
	var name, description string
	d := xml.NewDecoder(strings.NewReader(out.Content))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			path = append(path, e.Name.Local)
			count[e.Name.Local]++
			if e.Name.Space != reqifNamespace {
				t.Errorf("%s is in the namespace %q", e.Name.Local, e.Name.Space)
			}
			for _, a := range e.Attr {
				switch {
				case a.Name.Local == "IDENTIFIER":
					if ids[a.Value] != "" || strings.ContainsFunc(a.Value, func(r rune) bool { return unicode.IsSpace(r) || r == ':' }) || unicode.IsDigit(rune(a.Value[0])) {
						t.Errorf("the identifier %q of %s is not valid, or not unique", a.Value, e.Name.Local)
					}
					ids[a.Value] = e.Name.Local
				case a.Name.Local == "THE-VALUE" && a.Value == `<&">`:
					name = a.Value
				case a.Name.Local == "THE-VALUE" && a.Value == "two\nlines":
					description = a.Value
				}
			}
		case xml.CharData:
			if last := path[max(0, len(path)-1):]; len(last) == 1 && strings.HasSuffix(last[0], "-REF") {
				if text := strings.TrimSpace(string(e)); text != "" {
					refs[last[0]] = append(refs[last[0]], text)
				}
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
	for kind, all := range refs {
		for _, id := range all {
			if ids[id] != strings.TrimSuffix(kind, "-REF") {
				t.Errorf("%s leads to %q, which is a %q", kind, id, ids[id])
			}
		}
	}
	items := len(exampleItems) + 1
	if count["SPEC-OBJECT"] != items || count["SPEC-HIERARCHY"] != items || count["SPEC-RELATION"] != len(exampleRelations) || name == "" || description == "" {
		t.Errorf("%v %q %q", count, name, description)
	}
}

// TestLargeExport checks that Export writes a large database, and that the tool export_items
// refuses to put it into one answer.
func TestLargeExport(t *testing.T) {
	r := start(t, newest)
	var set store.Set
	for range 70 {
		set.Items = append(set.Items, store.Item{Kind: store.Epic, Title: "A", Description: strings.Repeat("x", store.MaxDescription)})
	}
	if _, err := r.store.Fill(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	r.Refused("export_items", args{"format": "reqif"}, "pass its id as root")
	var b strings.Builder
	if err := Export(t.Context(), r.store, &b, ExportOptions{Format: Markdown, Version: "1"}); err != nil || b.Len() < maxExport {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
}
