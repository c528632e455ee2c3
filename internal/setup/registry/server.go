package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// Status is what the registry says about a version of a server.
type Status string

// The values of Status. A registry without this information gives Active.
const (
	Active     Status = "active"
	Deprecated Status = "deprecated"
	Deleted    Status = "deleted"
)

// Server is one version of a server in a registry. All its texts are safe to print.
type Server struct {
	Name        string // such as io.github.owner/name
	Title       string // "" for none
	Description string
	Version     string
	Website     string // "" for none
	Repository  string // the URL of the source code; "" for none
	Status      Status
	StatusNote  string // why the server is deprecated; "" if the registry does not say
	Unread      int    // the packages and URLs beyond the limit, which Ways does not return

	packages []packageJSON
	remotes  []transportJSON
}

// These bound a server.json. What is beyond maxWays is left out. A package with more than the other
// limits cannot be used, because half of its arguments would be another program.
const (
	maxWays  = 20
	maxItems = 100     // arguments, variables, headers and choices, each
	maxText  = 4 << 10 // the bytes of a value or an argument
	maxLine  = 500     // the bytes of a text for people
)

// officialMeta is the key below _meta at which the registry says what it knows about a server.
const officialMeta = "io.modelcontextprotocol.registry/official"

// parseResponse reads a ServerResponse of the API: a server.json, and what the registry says about
// it.
func parseResponse(raw []byte) (Server, error) {
	var r struct {
		Server json.RawMessage            `json:"server"`
		Meta   map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return Server{}, shapeError(err)
	}
	if r.Server == nil {
		return Server{}, errors.New("it has no server")
	}
	s, err := parseServer(r.Server)
	if err != nil {
		return Server{}, err
	}
	var official struct {
		Status  Status `json:"status"`
		Message string `json:"statusMessage"`
	}
	if meta, ok := r.Meta[officialMeta]; ok && json.Unmarshal(meta, &official) == nil {
		if official.Status == Deprecated || official.Status == Deleted {
			s.Status = official.Status
		}
		s.StatusNote = excerpt.Line(official.Message, maxLine)
	}
	return s, nil
}

// parseServer reads a server.json.
func parseServer(raw []byte) (Server, error) {
	var d struct {
		Name        string `json:"name"`
		Title       string `json:"title"`
		Description string `json:"description"`
		Version     string `json:"version"`
		Website     string `json:"websiteUrl"`
		Repository  struct {
			URL string `json:"url"`
		} `json:"repository"`
		Packages []packageJSON   `json:"packages"`
		Remotes  []transportJSON `json:"remotes"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return Server{}, shapeError(err)
	}
	if bad := badServerName(d.Name); bad != "" {
		return Server{}, fmt.Errorf("its name %s %s", excerpt.Quote(d.Name, 100), bad)
	}
	line := func(s string) string { return excerpt.Line(s, maxLine) }
	s := Server{
		Name: d.Name, Title: line(d.Title), Description: line(d.Description), Version: line(d.Version),
		Website: line(d.Website), Repository: line(d.Repository.URL), Status: Active,
		packages: d.Packages[:min(len(d.Packages), maxWays)], remotes: d.Remotes[:min(len(d.Remotes), maxWays)],
	}
	s.Unread = len(d.Packages) + len(d.Remotes) - len(s.packages) - len(s.remotes)
	return s, nil
}

// shapeError says which member has the wrong type. The text of package json is not used, because it
// may repeat parts of the document.
func shapeError(err error) error {
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && bad.Field != "" {
		return fmt.Errorf("its member %s has the wrong type", excerpt.Word(bad.Field, 100))
	}
	return errors.New("it is not the JSON of a server")
}

// has reports whether all words are in the texts of the server.
func (s *Server) has(words []string) bool {
	all := strings.ToLower(s.Name + "\n" + s.Title + "\n" + s.Description)
	for _, w := range words {
		if !strings.Contains(all, strings.ToLower(w)) {
			return false
		}
	}
	return true
}

// Short returns the last part of the name, from which people can choose the server's name in their
// configuration.
func (s *Server) Short() string { return s.Name[strings.IndexByte(s.Name, '/')+1:] }

// packageJSON is a Package of server.json.
type packageJSON struct {
	RegistryType         string         `json:"registryType"`
	RegistryBaseURL      string         `json:"registryBaseUrl"`
	Identifier           string         `json:"identifier"`
	Version              string         `json:"version"`
	FileSHA256           string         `json:"fileSha256"`
	RuntimeHint          string         `json:"runtimeHint"`
	Transport            transportJSON  `json:"transport"`
	RuntimeArguments     []argumentJSON `json:"runtimeArguments"`
	PackageArguments     []argumentJSON `json:"packageArguments"`
	EnvironmentVariables []keyValueJSON `json:"environmentVariables"`
}

// transportJSON is a LocalTransport or a RemoteTransport.
type transportJSON struct {
	Type      string               `json:"type"`
	URL       string               `json:"url"`
	Headers   []keyValueJSON       `json:"headers"`
	Variables map[string]inputJSON `json:"variables"`
}

// inputJSON is an Input, or an InputWithVariables.
type inputJSON struct {
	Description string               `json:"description"`
	IsRequired  bool                 `json:"isRequired"`
	Format      string               `json:"format"`
	Value       *string              `json:"value"`
	IsSecret    bool                 `json:"isSecret"`
	Default     *string              `json:"default"`
	Placeholder string               `json:"placeholder"`
	Choices     []string             `json:"choices"`
	Variables   map[string]inputJSON `json:"variables"`
}

// argumentJSON is a PositionalArgument or a NamedArgument.
type argumentJSON struct {
	inputJSON
	Type       string `json:"type"`
	Name       string `json:"name"`
	ValueHint  string `json:"valueHint"`
	IsRepeated bool   `json:"isRepeated"`
}

// keyValueJSON is a KeyValueInput.
type keyValueJSON struct {
	inputJSON
	Name string `json:"name"`
}
