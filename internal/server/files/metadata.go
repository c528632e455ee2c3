package files

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type metadataIn struct {
	Path string `json:"path" jsonschema:"The file, folder or symlink."`
}

type metadataOut struct {
	Path        string `json:"path"`
	URI         string `json:"uri" jsonschema:"The URI of the entry as a resource."`
	Type        string `json:"type" jsonschema:"file, folder, symlink or other. Nothing of type other can be opened."`
	Size        int64  `json:"size" jsonschema:"Bytes."`
	Modified    string `json:"modified" jsonschema:"When the entry was changed last (UTC)."`
	Permissions string `json:"permissions" jsonschema:"As ls -l shows them."`
	Mode        string `json:"mode" jsonschema:"The permissions as an octal number."`
	Version     string `json:"version" jsonschema:"Changes when the file changes. Pass it to write_file as if_version."`
	Target      string `json:"target,omitempty" jsonschema:"Where a symlink points."`
	Outside     bool   `json:"outside,omitempty" jsonschema:"The symlink leads outside the root, so no tool follows it."`
	MIMEType    string `json:"mime_type,omitempty"`
	Encoding    string `json:"encoding,omitempty" jsonschema:"Encoding of a text file: utf-8, utf-8-bom, utf-16le or utf-16be."`
	Newlines    string `json:"newlines,omitempty" jsonschema:"Line ends of a text file: lf, crlf or mixed. Only the beginning of the file counts."`
}

func (s *Server) addMetadata() {
	add(s, tool{
		name: "get_metadata", title: "Get metadata",
		description: "Get type, size, time, permissions, MIME type and encoding of a file or folder without reading it. For a symlink, the answer describes the symlink and not its target.",
		restrictOut: func(p map[string]*jsonschema.Schema) {
			words(p["type"], typeFile, typeFolder, typeSymlink, typeOther)
		},
	}, s.metadata)
}

func (s *Server) metadata(_ context.Context, _ *mcp.CallToolRequest, in metadataIn) (*mcp.CallToolResult, metadataOut, error) {
	at, err := s.one(in.Path)
	if err != nil {
		return nil, metadataOut{}, err
	}
	rel := filepath.FromSlash(at.rel)
	fi, err := at.dir.Lstat(rel)
	if err != nil {
		return nil, metadataOut{}, s.failed("describe", at, err)
	}
	out := metadataOut{
		Path: at.name, URI: at.uri(), Type: typeOf(fi.Mode()), Size: fi.Size(), Modified: stamp(fi.ModTime()),
		Permissions: fi.Mode().String(), Mode: fmt.Sprintf("%04o", fi.Mode().Perm()), Version: version(fi),
	}
	switch out.Type {
	case typeSymlink:
		if t, err := at.dir.Readlink(rel); err == nil {
			out.Target = strings.ToValidUTF8(filepath.ToSlash(t), "\uFFFD")
		}
		_, err := s.resolve(at, true)
		out.Outside = err != nil
	case typeFile:
		f, fi, err := s.regular(at)
		if err != nil {
			break // a file that cannot be read still has metadata
		}
		defer func() { _ = f.Close() }()
		if head, err := headOf(f); err == nil {
			cs := charsetOf(head, len(head) < headSize)
			out.MIMEType, out.Encoding = mimeOf(fi.Name(), head, cs), cs.name
			if cs.name != "" {
				from, to := cs.trim(head, 0, len(head), false)
				text, _ := cs.decode(head[from:to])
				out.Newlines = endsOf(text)
			}
		}
	}
	return nil, out, nil
}
