package console

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Some forms run a program that nobody has run here before, or let somebody in. The browser of who has signed in a
// while ago may have been left open, so they ask again: by a new sign-in, or by a few words that nobody types by
// accident.

// sureWords returns what the viewer of a page has to type before a form does what it says, or "".
func sureWords(r *http.Request, words string) string {
	if stateOf(r).viewer.session.Young() {
		return ""
	}
	return words
}

// sure reports whether the form in a request may do what it says.
func sure(r *http.Request, words string) bool {
	return sureWords(r, words) == "" || hasTyped(r, words)
}

// hasTyped reports whether somebody has typed words into the form in a request.
func hasTyped(r *http.Request, words string) bool {
	return strings.EqualFold(strings.Join(strings.Fields(r.PostForm.Get("sure")), " "), words)
}

// unsure is what the page says if sure is false.
func unsure(words string) string {
	return "Nothing has been done yet. You signed in more than 10 minutes ago, so type “" + words + "” into the field and send the form again, or sign in again first."
}

// forms makes a form that is sent twice, by a double click or by going back, act once: each has a number, and
// the second gets the answer of the first. It is safe for concurrent use.
type forms struct {
	mu   sync.Mutex
	seen []*sent // oldest first
}

// sent is a form that was sent.
type sent struct {
	key    string
	at     time.Time
	done   chan struct{} // closed when answer is there
	answer any
}

const (
	mostForms = 512
	formLife  = 2 * time.Minute // how long an answer is kept, which may have a link that nobody else may see
)

// formNumber returns a number for a form.
func formNumber() string { return rand.Text() }

// once returns what act returns for the form in r that has the number number, or returned before. again says that it
// was sent before. If that was some minutes ago, the answer is nil.
func (f *forms) once(r *http.Request, number string, act func() any) (answer any, again bool) {
	if number == "" { // no form of ours, so nothing says which answer is meant
		return act(), false
	}
	key := stateOf(r).viewer.session.ID + " " + number
	f.mu.Lock()
	now := time.Now()
	for _, x := range f.seen {
		if now.Sub(x.at) > formLife {
			x.answer = nil
		}
		if x.key == key {
			f.mu.Unlock()
			<-x.done
			f.mu.Lock()
			defer f.mu.Unlock()
			return x.answer, true
		}
	}
	x := &sent{key: key, at: now, done: make(chan struct{})}
	f.seen = append(f.seen, x)
	f.seen = f.seen[max(0, len(f.seen)-mostForms):]
	f.mu.Unlock()
	defer close(x.done)
	answer = act()
	f.mu.Lock()
	defer f.mu.Unlock()
	x.answer = answer
	return answer, false
}

// forget lets the form in r that has the number number act again when it's sent again.
func (f *forms) forget(r *http.Request, number string) {
	key := stateOf(r).viewer.session.ID + " " + number
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = slices.DeleteFunc(f.seen, func(x *sent) bool { return x.key == key })
}
