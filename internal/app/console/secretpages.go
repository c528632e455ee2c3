package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// SecretKeeper has a project's secrets, and never returns a value of one. *admin.API implements SecretKeeper. by is the
// subject of who acts. OwnSecrets doesn't block.
type SecretKeeper interface {
	OwnSecrets() ([]admin.SecretEntry, *admin.Problem)
	SetSecret(ctx context.Context, by, name string, q admin.SecretRequest) (admin.KeptSecret, *admin.Problem)
	RemoveSecret(ctx context.Context, by, name string) (admin.SecretEntry, *admin.Problem)
	StoreAway() string
}

// secretsPath is the path of the list of secrets.
const secretsPath = prefix + "/secrets"

// removeWords are what somebody types who removes a secret that something uses; see sure.
const removeWords = "remove the secret"

// secretPages are the list of secrets, and the page of each, on which it's replaced and removed. A value is in the form
// that sets it and nowhere else: it isn't in an address, on a page, in an event stream, or in the answer of [forms.once].
type secretPages struct {
	frame  *frame
	source SecretKeeper
	forms  forms
}

func (p *secretPages) register(f *frame) {
	f.add(p.listPage(nil))
	f.add(p.secretPage(nil))
	f.handle("POST /secrets", identity.Admin, p.add)
	f.handleSure("POST /secrets/{name}", identity.Admin, removeWords, p.change)
}

func (p *secretPages) listPage(failed *secretProblem) Page {
	return Page{Path: "/secrets", Least: identity.Operator, Template: "secrets.html", Sheet: "second.css", Nav: "Secrets", Group: accesses, Key: "Z", View: func(r *http.Request) (*View, error) { return p.list(r, failed) }}
}

func (p *secretPages) secretPage(failed *secretProblem) Page {
	return Page{Path: "/secrets/{name}", Least: identity.Operator, Template: "secret.html", Sheet: "second.css", View: func(r *http.Request) (*View, error) { return p.secret(r, failed) }}
}

// secretProblem says what is wrong with a form that was sent, beside which field. It has no part of a value.
type secretProblem struct {
	Status int
	Field  string // name, value, sure, or "" for none of them
	Text   string
	Name   string // what was sent as the name of a new secret
}

// At reports whether the problem is about a field.
func (p *secretProblem) At(field string) bool { return p != nil && p.Field == field }

// secretList has the values of the list of secrets.
type secretList struct {
	kept
	Rows    []admin.SecretEntry
	Pager   pager
	Failed  *secretProblem
	Problem string // why nothing is kept
	Number  string
	Key     string
}

func (p *secretPages) list(r *http.Request, failed *secretProblem) (*View, error) {
	v := &secretList{kept: keptFor(r, p.source.StoreAway(), identity.Admin), Failed: failed, Number: formNumber()}
	all, bad := p.source.OwnSecrets()
	if bad != nil {
		v.Problem, v.Acts = bad.Detail, false
	}
	v.Rows, v.Pager = paged(all, r.URL.Query())
	v.Key = fmt.Sprint(v.kept, v.Rows, v.Pager.Total)
	out := &View{Title: "Secrets", Data: v}
	if failed != nil {
		out.Status = failed.Status
	}
	return out, nil
}

// secretView has the values of the page of a secret.
type secretView struct {
	kept
	admin.SecretEntry
	Failed *secretProblem
	Words  string // what has to be typed to remove it, or ""
	Number string
	Key    string
}

// Used reports whether the configuration refers to the secret.
func (v *secretView) Used() bool { return len(v.Servers)+len(v.Settings) > 0 }

// find returns the secret with a name.
func (p *secretPages) find(name string) (x admin.SecretEntry, err error) {
	next := Crumb{"Show all secrets", secretsPath}
	all, bad := p.source.OwnSecrets()
	if bad != nil {
		return x, problemError(bad, next)
	}
	var names []string
	for _, x := range all {
		if x.Name == name {
			return x, nil
		}
		names = append(names, x.Name)
	}
	var near []Crumb
	if n := config.Suggest(name, names); n != "" {
		near = append(near, Crumb{n, pathOf("secrets", n)})
	}
	return x, notFound("There is no secret "+excerpt.Quote(name, 64), "Somebody may have removed it.", next, near...)
}

func (p *secretPages) secret(r *http.Request, failed *secretProblem) (*View, error) {
	x, err := p.find(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	v := &secretView{kept: keptFor(r, p.source.StoreAway(), identity.Admin), SecretEntry: x, Failed: failed, Number: formNumber()}
	if v.Words = sureWords(r, removeWords); v.Used() {
		v.Words = removeWords
	}
	v.Key = fmt.Sprint(v.kept, x)
	out := &View{Title: x.Name, Crumbs: []Crumb{{"Secrets", secretsPath}}, Data: v}
	if failed != nil {
		out.Status = failed.Status
	}
	return out, nil
}

// add handles the form for a new secret.
func (p *secretPages) add(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	name := strings.TrimSpace(r.PostForm.Get("name"))
	failed := p.set(r, name, true)
	if failed == nil {
		say(w, "The secret "+name+" is kept. Write ${secret:"+name+"} where a server needs it.")
		http.Redirect(w, r, secretsPath, http.StatusSeeOther)
		return
	}
	failed.Name = name
	page := p.listPage(failed)
	p.frame.again(w, r, page, page.View)
}

// set keeps the value of a form, as a new secret or in place of another value. It returns what is wrong, or nil.
func (p *secretPages) set(r *http.Request, name string, isNew bool) *secretProblem {
	value, sent := r.PostForm.Get("value"), r.PostForm.Get("number")
	if wrong := admin.CheckSecret(name, "x"); wrong != "" {
		return &secretProblem{http.StatusUnprocessableEntity, "name", upper(wrong) + ".", ""}
	}
	if wrong := admin.CheckSecret(name, value); wrong != "" {
		return &secretProblem{http.StatusUnprocessableEntity, "value", upper(wrong) + ".", ""}
	}
	if sent == "" {
		return &secretProblem{http.StatusBadRequest, "", "The form can't be read. Send it again.", ""}
	}
	// The answer has no part of the value: it's kept for a while.
	answer, _ := p.forms.once(r, sent, doing(func() (admin.SecretEntry, *admin.Problem) {
		if _, err := p.find(name); isNew && err == nil {
			return admin.SecretEntry{}, &admin.Problem{Type: "taken", Status: http.StatusConflict, Detail: "There is a secret " + name + " already. Its page replaces the value."}
		} else if !isNew && err != nil {
			return admin.SecretEntry{}, &admin.Problem{Status: http.StatusConflict, Detail: "Somebody has removed the secret " + name + " meanwhile. Nothing was changed."}
		}
		ctx, by := acting(r)
		kept, bad := p.source.SetSecret(ctx, by, name, admin.SecretRequest{Value: value})
		return kept.SecretEntry, bad
	}))
	switch _, bad := acted[admin.SecretEntry](answer); {
	case bad == nil:
		return nil
	case bad.Type == "taken":
		return &secretProblem{bad.Status, "name", bad.Error(), ""}
	default:
		return &secretProblem{bad.Status, "", bad.Error(), ""}
	}
}

// change replaces the value of a secret, or removes it.
func (p *secretPages) change(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	name, do := r.PathValue("name"), r.PostForm.Get("do")
	var failed *secretProblem
	switch {
	case do == "set":
		failed = p.set(r, name, false)
	case do == "remove" && r.PostForm.Get("number") != "":
		failed = p.remove(r, name)
	default:
		p.frame.fail(w, r, unreadable(pathOf("secrets", name)))
		return
	}
	switch {
	case failed != nil:
		page := p.secretPage(failed)
		p.frame.again(w, r, page, page.View)
	case do == "set":
		say(w, "The secret "+name+" has another value. Servers that use it restart.")
		http.Redirect(w, r, pathOf("secrets", name), http.StatusSeeOther)
	default:
		say(w, "The secret "+name+" is removed. Backups of the database still have it.")
		http.Redirect(w, r, secretsPath, http.StatusSeeOther)
	}
}

// remove removes a secret, if whoever asks for it means it. It returns what is wrong, or nil.
func (p *secretPages) remove(r *http.Request, name string) *secretProblem {
	answer, _ := p.forms.once(r, r.PostForm.Get("number"), doing(func() (admin.SecretEntry, *admin.Problem) {
		x, err := p.find(name)
		switch {
		case err != nil:
		case !sure(r, removeWords):
			return x, &admin.Problem{Type: "sure", Status: http.StatusForbidden, Detail: unsure(removeWords)}
		case len(x.Servers)+len(x.Settings) > 0 && !hasTyped(r, removeWords):
			return x, &admin.Problem{Type: "sure", Status: http.StatusForbidden, Detail: "Nothing has been removed: the secret is in use. Type “" + removeWords + "” into the field, and send the form again."}
		}
		ctx, by := acting(r)
		return p.source.RemoveSecret(ctx, by, name)
	}))
	_, bad := acted[admin.SecretEntry](answer)
	switch {
	case bad == nil:
		return nil
	case bad.Type == "sure":
		return &secretProblem{bad.Status, "sure", bad.Error(), ""}
	}
	return &secretProblem{bad.Status, "", bad.Error(), ""}
}
