package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
)

// addresses returns the addresses on which Dragoman may listen: the default address, and the
// configured address if it is different. A server entry in a client's file that has one of these
// addresses leads to Dragoman.
func (e environment) addresses(file string) []string {
	out := []string{config.Default().Listen}
	if listen, _ := e.listenAddress(file); listen != out[0] {
		out = append(out, listen)
	}
	return out
}

// source is a client's file that the command has read.
type source struct {
	*intake.Source
	word string // the value of --from
}

// readPlace reads a client's configuration file. It returns nil if the file does not exist.
func readPlace(m clientfile.Machine, p clientfile.Place, all bool, addresses []string) (*source, error) {
	s, err := intake.Read(m, p, all, addresses)
	var none *intake.NoServers
	switch {
	case errors.As(err, &none):
		return nil, withHint(err, "%s", none.Hint)
	case err != nil || s == nil:
		return nil, err
	}
	return &source{Source: s}, nil
}

// sources reads the files that --from selects.
func (c *importCommand) sources(addresses []string) ([]*source, error) {
	m := intake.Machine(c.env)
	var out []*source
	for _, word := range c.from {
		var places []clientfile.Place
		client, known := clientfile.ByName(word)
		switch {
		case word == "all":
			for _, c := range clientfile.Clients() {
				places = append(places, m.Places(c)...)
			}
		case known:
			places = m.Places(client)
		default:
			p := clientfile.Place{Path: word}
			if st, err := os.Stat(word); err != nil || st.IsDir() {
				hint := "use one of " + strings.Join(clientfile.IDs(), ", ") + ", all, or the path of a file"
				if s := config.Suggest(word, clientfile.IDs()); s != "" {
					hint = "did you mean " + s + "?"
				}
				return nil, usagef(hint, "--from %q is neither a client nor a file", word)
			}
			p.Project = intake.ProjectOfFile(word)
			places = []clientfile.Place{p}
		}
		found := false
		for _, p := range places {
			s, err := readPlace(m, p, c.allProjects, addresses)
			if err != nil {
				return nil, err
			}
			if s != nil {
				found = true
				if s.word = s.Place.Client.ID; !known && word != "all" {
					s.word = word
				}
				out = append(out, s)
			}
		}
		if !found && known {
			var paths []string
			for _, p := range places {
				paths = append(paths, p.Path)
			}
			return nil, withHint(fmt.Errorf("no configuration of %s was found", client.Title), "looked for %s; name another file with --from FILE", strings.Join(paths, ", "))
		}
	}
	return out, nil
}
