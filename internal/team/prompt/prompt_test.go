package prompt

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/mistakes.txt")

// TestMistakes says of each prompt that can't be kept, or be active, what is wrong with it and what to do.
func TestMistakes(t *testing.T) {
	many := make([]Argument, MaxArguments+1)
	var b strings.Builder
	for _, c := range []struct {
		what string
		p    Prompt
	}{
		{"no name", Prompt{Text: "x"}},
		{"a name with other characters", Prompt{Name: "Réview it", Text: "x"}},
		{"a name that begins with a dash", Prompt{Name: "-c", Text: "x"}},
		{"a long name", Prompt{Name: strings.Repeat("n", 65), Text: "x"}},
		{"no text", Prompt{Name: "a", Text: " \n"}},
		{"a long text", Prompt{Name: "a", Text: strings.Repeat("x", MaxText+1)}},
		{"a long description", Prompt{Name: "a", Text: "x", Description: strings.Repeat("x", MaxDescription+1)}},
		{"no UTF-8", Prompt{Name: "a", Text: "\xff"}},
		{"a NUL character", Prompt{Name: "a", Text: "x\x00"}},
		{"an argument that isn't declared", Prompt{Name: "a", Text: "Look at {{change}} in {{ depth }}.", Arguments: []Argument{{Name: "change"}}}},
		{"an argument that isn't used", Prompt{Name: "a", Text: "Look at it.", Arguments: []Argument{{Name: "change"}}}},
		{"an argument declared twice", Prompt{Name: "a", Text: "{{x}}", Arguments: []Argument{{Name: "x"}, {Name: "x"}}}},
		{"an argument with other characters", Prompt{Name: "a", Text: "{{x}}", Arguments: []Argument{{Name: "The change"}}}},
		{"an argument without a name", Prompt{Name: "a", Text: "{{x}}", Arguments: []Argument{{}}}},
		{"braces that end nowhere", Prompt{Name: "a", Text: "Look at {{change} now, please"}},
		{"braces around something else", Prompt{Name: "a", Text: "{{ user.name }}"}},
		{"braces around nothing", Prompt{Name: "a", Text: "{{}}"}},
		{"braces in braces", Prompt{Name: "a", Text: "{{a{{b}}}}"}},
		{"many arguments", Prompt{Name: "a", Text: "x", Arguments: many}},
		{"many values", Prompt{Name: "a", Text: "{{x}}", Arguments: []Argument{{Name: "x", Values: make([]string, MaxValues+1)}}}},
		{"an empty value", Prompt{Name: "a", Text: "{{x}}", Arguments: []Argument{{Name: "x", Values: []string{"1", ""}}}}},
		{"a long description of an argument", Prompt{Name: "a", Text: "{{x}}", Arguments: []Argument{{Name: "x", Description: strings.Repeat("x", MaxDescription+1)}}}},
		{"active with an argument", Prompt{Name: "a", Text: "{{x}}", Arguments: []Argument{{Name: "x"}}}},
	} {
		err := c.p.Check()
		if err == nil {
			err = c.p.CheckActive()
		}
		m, ok := MistakeOf(err)
		if !ok {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		fmt.Fprintf(&b, "%s\n  %s\n  %s\n", c.what, m.Text, m.Next)
	}
	const golden = "testdata/mistakes.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || b.String() != string(want) {
		t.Errorf("%v; -update writes\n%s", err, b.String())
	}
}

// TestFill fills in arguments. Braces in a value stay, and the result can't grow without bound.
func TestFill(t *testing.T) {
	p := Prompt{Name: "a", Text: "{{x}} and {{ y }}, } {{x}}{", Arguments: []Argument{{Name: "x"}, {Name: "y"}}}
	bomb := Prompt{Name: "bomb", Text: strings.Repeat("{{x}}", MaxText/5), Arguments: []Argument{{Name: "x"}}}
	for _, c := range []struct {
		p      Prompt
		values map[string]string
		want   string
	}{
		{p, map[string]string{"x": "{{y}}", "y": "", "z": "ignored"}, "{{y}} and , } {{y}}{"},
		{p, map[string]string{"x": "1"}, "the prompt a needs the argument y"},
		{p, nil, "the prompt a needs the argument x and y"},
		{bomb, map[string]string{"x": strings.Repeat("x", 1<<20)}, "the prompt bomb would have more than 1048576 bytes with these arguments"},
	} {
		if err := c.p.Check(); err != nil {
			t.Fatal(err)
		}
		got, err := c.p.Fill(c.values)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: %s", c.values, got)
		}
	}
}

// FuzzCheck: what can be kept can be filled in, and only with its arguments.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{"", "x", "{{x}}", "{{x", "{{{x}}}", "{{x}} {{x }}", "{{ y}}", "{{\xff}}", "}}{{"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := Prompt{Name: "a", Text: text, Arguments: []Argument{{Name: "x"}}}
		if p.Check() != nil {
			p.Arguments = nil
			if p.Check() != nil {
				return
			}
		}
		got, err := p.Fill(map[string]string{"x": "{{x}}"})
		if err != nil || len(p.Arguments) == 0 && got != text {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	})
}
