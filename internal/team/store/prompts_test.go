package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/team/prompt"
)

// TestPrompts writes versions of prompts, publishes them, makes them active and puts them off. No version is ever
// replaced, one prompt of a project is active at most, another project notices nothing, and a removed project takes
// its prompts with it. Another store hears of each change.
func TestPrompts(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s, other := open(t, o), (*Store)(nil)
		add := func(project, name, text string, arguments ...prompt.Argument) func(*Tx) (int64, error) {
			return func(t *Tx) (int64, error) {
				return t.AddPrompt(project, &prompt.Prompt{Name: name, Description: "about " + name, Text: text, Arguments: arguments})
			}
		}
		fits := (*prompt.Prompt).CheckActive
		publish := func(name string, version int64) func(*Tx) (int64, error) {
			return func(t *Tx) (int64, error) { return t.PublishPrompt("shop", name, version, fits) }
		}
		activate := func(name string) func(*Tx) (int64, error) {
			return func(t *Tx) (int64, error) { return t.ActivatePrompt("shop", name, fits) }
		}
		off := func(name string) func(*Tx) (int64, error) {
			return func(t *Tx) (int64, error) {
				was, err := t.PutOffPrompt("shop", name)
				return map[bool]int64{true: 1}[was], err
			}
		}
		for i, c := range []struct {
			do   func(*Tx) (int64, error)
			got  int64
			want string
		}{
			{add("shop", "b", "one"), 1, "b@1/0"},
			{publish("a", 0), 0, "b@1/0"},
			{activate("b"), 0, "b@1/0"},
			{add("shop", "a", "{{x}}", prompt.Argument{Name: "x", Values: []string{"1", "2"}}), 1, "a@1/0 b@1/0"},
			{publish("b", 0), 1, "a@1/0 b@1/1=one"},
			{publish("a", 1), 1, "a@1/1={{x}}[1 2] b@1/1=one"},
			{activate("b"), 1, "a@1/1={{x}}[1 2] b@1/1=one!"},
			{add("shop", "b", "two"), 2, "a@1/1={{x}}[1 2] b@2/1=one!"},
			{publish("b", 3), 0, "a@1/1={{x}}[1 2] b@2/1=one!"},
			{publish("b", 0), 2, "a@1/1={{x}}[1 2] b@2/2=two!"},
			{add("shop", "c", "three"), 1, "a@1/1={{x}}[1 2] b@2/2=two! c@1/0"},
			{publish("c", 0), 1, "a@1/1={{x}}[1 2] b@2/2=two! c@1/1=three"},
			{activate("c"), 1, "a@1/1={{x}}[1 2] b@2/2=two c@1/1=three!"},
			{publish("b", 1), 1, "a@1/1={{x}}[1 2] b@2/1=one c@1/1=three!"},
			{off("c"), 1, "a@1/1={{x}}[1 2] b@2/1=one c@1/0"},
			{off("c"), 0, "a@1/1={{x}}[1 2] b@2/1=one c@1/0"},
			{add("other", "b", "theirs"), 1, "a@1/1={{x}}[1 2] b@2/1=one c@1/0"},
		} {
			err := s.Write(t.Context(), "ada", func(x *Tx) error {
				got, err := c.do(x)
				if err == nil && got != c.got {
					err = fmt.Errorf("got %d", got)
				}
				return err
			})
			if got := promptsOf(s.Snapshot(), "shop"); err != nil || got != c.want {
				t.Fatalf("%d: %s, %v; want %s", i, got, err, c.want)
			}
			if other == nil {
				other = open(t, o)
			}
		}
		acts, err := s.Acts(t.Context(), 0, 100)
		var said []string
		for _, a := range slices.Backward(acts) {
			said = append(said, fmt.Sprintf("%s %s %s -> %s", a.Action, strings.TrimPrefix(a.Object, "prompt:"), a.Was, a.Became))
		}
		for i, want := range map[int]string{
			0:  `wrote version 1 shop/b  -> {"description":"about b","sha256":"7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed","version":1}`,
			2:  `published version 1 shop/b  -> {"published":1}`,
			4:  `activated version 1 shop/b {} -> {"active":"b"}`,
			6:  `published version 2 shop/b {"active":true,"published":1} -> {"active":true,"published":2}`,
			9:  `activated version 1 shop/c {"active":"b"} -> {"active":"c"}`,
			11: `put off version 1 shop/c {"active":true,"published":1} -> `,
		} {
			if err != nil || said[i] != want {
				t.Errorf("act %d, %v:\n%s, want\n%s", i, err, said[i], want)
			}
		}
		if !strings.Contains(said[1], `"arguments":[{"name":"x","values":["1","2"]}]`) {
			t.Errorf("the act of a version with an argument is %s", said[1])
		}
		for name, do := range map[string]func(*Tx) (int64, error){
			"active with an argument": activate("a"),
			"published with an argument": func(x *Tx) (int64, error) {
				_, _ = activate("b")(x)
				_, _ = add("shop", "b", "{{x}}", prompt.Argument{Name: "x"})(x)
				return publish("b", 0)(x)
			},
		} {
			err := s.Write(t.Context(), "ada", func(x *Tx) error { _, err := do(x); return err })
			if _, ok := prompt.MistakeOf(err); !ok {
				t.Errorf("%s: %v", name, err)
			}
		}
		all, err := s.PromptVersions(t.Context(), "shop", "b", 0, 10)
		if err != nil || len(all) != 2 || all[0].Text != "two" || all[1].Text != "one" || all[1].Actor != "ada" {
			t.Errorf("versions: %+v, %v", all, err)
		}
		await(t, other, "the prompts", func(now *Snapshot) bool { return promptsOf(now, "shop") == promptsOf(s.Snapshot(), "shop") })

		err = s.Write(t.Context(), "ada", func(x *Tx) error {
			version, err := x.AddProject("shop", "", []byte("s"), Settings{})
			if err == nil {
				_, _, err = x.RemoveProject("shop", version, false, Settings{})
			}
			return err
		})
		all, _ = s.PromptVersions(t.Context(), "shop", "b", 0, 10)
		if got := promptsOf(s.Snapshot(), "shop") + promptsOf(s.Snapshot(), "other"); err != nil || len(all) != 0 || got != "b@1/0" {
			t.Errorf("after the project: %s, %d versions, %v", got, len(all), err)
		}
	})
}

// promptsOf returns NAME@NEWEST/PUBLISHED=TEXT[VALUES] of each prompt, with a ! behind the active one.
func promptsOf(s *Snapshot, project string) string {
	var all []string
	for _, x := range s.Prompts(project) {
		text := fmt.Sprintf("%s@%d/%d", x.Name, x.Newest, x.Published)
		if x.Published != 0 {
			text += "=" + x.Served.Text
			for _, a := range x.Served.Arguments {
				text += fmt.Sprint(a.Values)
			}
		}
		if x.Active {
			text += "!"
		}
		if x.Last.Version != x.Newest || x.Last.Description != "about "+x.Name || x.Last.Text != "" {
			text += fmt.Sprintf(" (last: %+v)", x.Last)
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
