package doctor

import (
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// maxNews is the maximum number of lines that a stage keeps for News.
const maxNews = 1000

// News returns what has happened since the last call, in lines for somebody who waits at the terminal:
// a client that came, each method that it used for the first time, and each finding.
func (s *Stage) News() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.news
	s.news = nil
	return out
}

// tell adds a line for News. The caller holds s.mu.
func (s *Stage) tell(line string) { s.tellAt(len(s.news), line) }

func (s *Stage) tellAt(at int, line string) {
	if len(s.news) < maxNews {
		s.news = slices.Insert(s.news, at, line)
	}
}

// tellMethod tells that a client has come, or uses a method for the first time. Clients without a session
// share one visitor, so their name matters too. The line stands at the index at, before the findings that
// the message has caused. The caller holds s.mu.
func (s *Stage) tellMethod(v *visitor, method string, at int) {
	if v.opened == "" || len(v.told) >= maxUsed {
		return
	}
	first := v.name + "\x00"
	switch {
	case !v.told[first]:
		s.tellAt(at, "a client has come: "+v.visit().opening())
		v.told[first] = true
	case !v.told[first+method]:
		who := "the client"
		if v.name != "" {
			who = excerpt.Quote(redact([]byte(v.name), nil), shown)
		}
		s.tellAt(at, who+" sends "+excerpt.Word(clip(method), shown))
	}
	v.told[first+method] = true
}
