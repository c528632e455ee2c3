package store

import (
	"context"
	"fmt"
	"strings"
)

const promptColumns = "name, title, description, content, active, version, editor, editor_id, created, updated"

func scanPrompt(scan func(...any) error) (p Prompt, err error) {
	err = scan(&p.Name, &p.Title, &p.Description, &p.Content, &p.Active, &p.Version, &p.Editor.Name, &p.Editor.ID, &p.Created, &p.Updated)
	return p, err
}

// SavePrompt creates the prompt p.Name if p.Version is 0. Otherwise it replaces the prompt p.Name,
// which must still have the version p.Version. It ignores p.Active, p.Created and p.Updated. If
// check returns an error for the new prompt, SavePrompt saves nothing and returns this error.
func (s *Store) SavePrompt(ctx context.Context, p Prompt, check func(Prompt) error) (Prompt, error) {
	return write(ctx, s, func(t *txn) (Prompt, error) { return t.savePrompt(p, check) })
}

func (t *txn) savePrompt(p Prompt, check func(Prompt) error) (Prompt, error) {
	var err error
	if err := promptName(p.Name); err != nil {
		return Prompt{}, err
	}
	if p.Title, err = line(p.Title, "title", MaxTitle, false); err != nil {
		return Prompt{}, err
	}
	if p.Description, err = text(p.Description, "description", MaxSummary, false); err != nil {
		return Prompt{}, err
	}
	if p.Content, err = text(p.Content, "content", MaxContent, true); err != nil {
		return Prompt{}, err
	}
	if err := p.Editor.check(); err != nil {
		return Prompt{}, err
	}
	was, err := t.prompt(p.Name)
	switch {
	case IsCode(err, NotFound) && p.Version == 0:
		n, err := t.Count("FROM prompts")
		if err != nil {
			return Prompt{}, err
		}
		if n >= MaxPrompts {
			return Prompt{}, fail(Full, "delete a prompt with delete_prompt", "there are %d prompts, which is the maximum", n)
		}
		p.Active, p.Version, p.Created, p.Updated = false, 1, t.Now, t.Now
		if err := check(p); err != nil {
			return Prompt{}, err
		}
		if err := t.Exec("INSERT INTO prompts ("+promptColumns+") VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?)", p.Name, p.Title, p.Description, p.Content, p.Version, p.Editor.Name, p.Editor.ID, p.Created, p.Updated); err != nil {
			return Prompt{}, err
		}
		return p, t.changed(PromptObject(p.Name), Created)
	case err != nil:
		return Prompt{}, err
	case p.Version == 0:
		return Prompt{}, fail(Conflict, fmt.Sprintf("use another name, or give version %d to replace the prompt", was.Version), "the prompt %s exists already", p.Name)
	case p.Version != was.Version:
		return Prompt{}, fail(Conflict, fmt.Sprintf("read the prompt, and repeat the change with version %d if the change is still correct", was.Version), "the prompt %s has version %d, not %d, because somebody changed it", p.Name, was.Version, p.Version)
	}
	p.Active, p.Version, p.Created, p.Updated = was.Active, was.Version+1, was.Created, t.Now
	if err := check(p); err != nil {
		return Prompt{}, err
	}
	if err := t.Exec("UPDATE prompts SET title = ?, description = ?, content = ?, version = ?, editor = ?, editor_id = ?, updated = ? WHERE name = ?", p.Title, p.Description, p.Content, p.Version, p.Editor.Name, p.Editor.ID, p.Updated, p.Name); err != nil {
		return Prompt{}, err
	}
	return p, t.changed(PromptObject(p.Name), Updated)
}

func promptName(name string) error {
	if name == "" || len(name) > MaxName || strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) {
		return invalid(fmt.Sprintf("use at most %d characters: small letters, digits, - and _", MaxName), "%s is not a name for a prompt", quote(name))
	}
	return nil
}

// DeletePrompt deletes a prompt. If the prompt was active, no prompt is active afterwards.
func (s *Store) DeletePrompt(ctx context.Context, name string) error {
	return s.write(ctx, func(t *txn) error {
		if _, err := t.prompt(name); err != nil {
			return err
		}
		if err := t.Exec("DELETE FROM prompts WHERE name = ?", name); err != nil {
			return err
		}
		return t.changed(PromptObject(name), Removed)
	})
}

// Activate makes the prompt with this name the active prompt. If name is "", no prompt is active
// afterwards. If check returns an error for the prompt, Activate changes nothing and returns this
// error.
func (s *Store) Activate(ctx context.Context, name string, check func(Prompt) error) error {
	return s.write(ctx, func(t *txn) error { return t.activate(name, check) })
}

func (t *txn) activate(name string, check func(Prompt) error) error {
	if name != "" {
		p, err := t.prompt(name)
		if err != nil || p.Active {
			return err
		}
		if err := check(p); err != nil {
			return err
		}
	}
	was, err := t.prompts("WHERE active = 1")
	if err != nil {
		return err
	}
	for _, p := range was {
		if err := t.Exec("UPDATE prompts SET active = 0 WHERE name = ?", p.Name); err != nil {
			return err
		}
		if err := t.changed(PromptObject(p.Name), Updated); err != nil {
			return err
		}
	}
	if name == "" {
		return nil
	}
	if err := t.Exec("UPDATE prompts SET active = 1 WHERE name = ?", name); err != nil {
		return err
	}
	return t.changed(PromptObject(name), Updated)
}

func (t *txn) prompt(name string) (Prompt, error) {
	p, err := scanPrompt(func(into ...any) error {
		return t.Row("SELECT "+promptColumns+" FROM prompts WHERE name = ?", []any{name}, into...)
	})
	if none(err) {
		return Prompt{}, fail(NotFound, "list the prompts with list_prompts", "there is no prompt %s", quote(name))
	}
	return p, err
}

func (t *txn) prompts(where string) ([]Prompt, error) {
	return all(t, scanPrompt, "SELECT "+promptColumns+" FROM prompts "+where)
}

// Prompt returns a prompt by its name.
func (s *Store) Prompt(ctx context.Context, name string) (Prompt, error) {
	if err := promptName(name); err != nil {
		return Prompt{}, err
	}
	return read(ctx, s, func(t *txn) (Prompt, error) { return t.prompt(name) })
}

// Prompts returns all prompts, ordered by name.
func (s *Store) Prompts(ctx context.Context) ([]Prompt, error) {
	return read(ctx, s, func(t *txn) ([]Prompt, error) { return t.prompts("ORDER BY name") })
}

// Active returns the active prompt. Its name is "" if no prompt is active.
func (s *Store) Active(ctx context.Context) (Prompt, error) {
	found, err := read(ctx, s, func(t *txn) ([]Prompt, error) { return t.prompts("WHERE active = 1") })
	if err != nil || len(found) == 0 {
		return Prompt{}, err
	}
	return found[0], nil
}
