//go:build unix

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// skillsServerMode runs a server on stdio with one skill, for the suite's scenarios sep-2640-*. The
// server supports only one era. NAME is the name of its skill. Only SKILL.md is in resources/list,
// because a skill's other files need not be in it.
//
//	conformance skills-server legacy|modern NAME
func skillsServerMode(args []string) int {
	if len(args) != 2 || (args[0] != "legacy" && args[0] != "modern") {
		return exitUsage
	}
	s := &skillsServer{modern: args[0] == "modern", name: args[1], out: &lines{w: os.Stdout}}
	each(os.Stdin, func(line []byte) error {
		var m skillsRequest
		if err := json.Unmarshal(line, &m); err != nil || m.ID == nil {
			return err
		}
		result, failure := s.handle(&m)
		answer := object{"jsonrpc": "2.0", "id": m.ID}
		if failure != nil {
			answer["error"] = failure
		} else {
			if s.modern {
				result["resultType"] = "complete"
			}
			answer["result"] = result
		}
		return s.out.write(must(json.Marshal(answer)))
	})
	return 0
}

const skillsExtension = "io.modelcontextprotocol/skills"

type skillsRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		URI     string `json:"uri"`
		Version string `json:"protocolVersion"`
	} `json:"params"`
}

type skillsServer struct {
	modern bool
	name   string
	out    *lines
}

// files returns the contents of the skill's files by path.
func (s *skillsServer) files() map[string]string {
	return map[string]string{
		"SKILL.md":          "---\nname: " + s.name + "\ndescription: Explains " + s.name + ".\n---\nRead guide/steps.md.\n",
		"guide/steps.md":    "First, look.\n",
		"guide/details.txt": "Nothing more.\n",
	}
}

func (s *skillsServer) root() string { return "skill://" + s.name + "/" }

// entry returns the skill as skills/list and skills/get return it.
func (s *skillsServer) entry() object {
	var all []object
	for path, content := range s.files() {
		sum := sha256.Sum256([]byte(content))
		all = append(all, object{"uri": s.root() + path, "digest": "sha256:" + hex.EncodeToString(sum[:]), "size": len(content)})
	}
	slices.SortFunc(all, func(a, b object) int { return strings.Compare(fmt.Sprint(a["uri"]), fmt.Sprint(b["uri"])) })
	return object{"uri": s.root() + "SKILL.md", "frontmatter": object{"name": s.name, "description": "Explains " + s.name + "."}, "resources": all}
}

// children returns the direct children of a folder, or nil if uri is not a folder of the skill.
func (s *skillsServer) children(uri string) (all []object) {
	path, ok := strings.CutPrefix(strings.TrimSuffix(uri, "/")+"/", s.root())
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for file := range s.files() {
		rest, ok := strings.CutPrefix(file, path)
		if !ok {
			continue
		}
		name, _, folder := strings.Cut(rest, "/")
		if seen[name] {
			continue
		}
		seen[name] = true
		child := object{"uri": s.root() + path + name, "name": name, "mimeType": "text/plain"}
		if folder {
			child["mimeType"] = "inode/directory"
		}
		all = append(all, child)
	}
	return all
}

func (s *skillsServer) handle(m *skillsRequest) (object, *rpcError) {
	capabilities := object{"resources": object{}, "extensions": object{skillsExtension: object{"directoryRead": true}}}
	identity := object{"name": "skills-server", "version": "1"}
	unknown := &rpcError{Code: -32602, Message: "no such resource: " + m.Params.URI}
	switch m.Method {
	case "initialize":
		if s.modern {
			return nil, &rpcError{Code: -32022, Message: "Unsupported protocol version", Data: object{"supported": []string{modernVersion}, "requested": m.Params.Version}}
		}
		return object{"protocolVersion": "2025-11-25", "serverInfo": identity, "capabilities": capabilities}, nil
	case "server/discover":
		if !s.modern {
			break
		}
		return object{"supportedVersions": []string{modernVersion}, "ttlMs": 0, "cacheScope": "private", "capabilities": capabilities,
			"_meta": object{"io.modelcontextprotocol/serverInfo": identity}}, nil
	case "ping":
		return object{}, nil
	case "resources/list":
		return s.cached(object{"resources": []object{{"uri": s.root() + "SKILL.md", "name": s.name, "description": "Explains " + s.name + ".", "mimeType": "text/markdown"}}}), nil
	case "resources/templates/list":
		return s.cached(object{"resourceTemplates": []object{}}), nil
	case "resources/read":
		content, ok := s.files()[strings.TrimPrefix(m.Params.URI, s.root())]
		if !ok {
			return nil, unknown
		}
		return s.cached(object{"contents": []object{{"uri": m.Params.URI, "mimeType": "text/markdown", "text": content}}}), nil
	case "skills/list":
		return s.cached(object{"skills": []object{s.entry()}}), nil
	case "skills/get":
		if m.Params.URI != s.root()+"SKILL.md" {
			return nil, unknown
		}
		return s.cached(object{"skill": s.entry()}), nil
	case "resources/directory/read":
		all := s.children(m.Params.URI)
		if all == nil {
			return nil, unknown
		}
		return object{"resources": all}, nil
	}
	return nil, notFound
}

// cached adds the members that a result of the modern era has.
func (s *skillsServer) cached(result object) object {
	if s.modern {
		result["ttlMs"], result["cacheScope"] = 0, "private"
	}
	return result
}
