package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bill writes the bill of materials of a platform's program: the modules in the program and the Go
// standard library. It reads the modules from the build information in the program, because they
// differ between platforms.
func (r *release) bill(p platform) error {
	b, err := os.ReadFile(r.built(p))
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(r.built(p))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	self := cdx.Component{
		BOMRef: "dragoman", Type: cdx.ComponentTypeApplication, Name: program, Version: r.version, Description: summary,
		PackageURL: "pkg:golang/" + module + "@v" + r.version + "?goos=" + p.os + "&goarch=" + p.arch,
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: license}}},
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		ExternalReferences: &[]cdx.ExternalReference{
			{Type: cdx.ERTypeVCS, URL: homepage}, {Type: cdx.ERTypeIssueTracker, URL: homepage + "/issues"},
		},
	}
	standard := strings.TrimPrefix(info.GoVersion, "go")
	parts := []cdx.Component{{BOMRef: "std", Type: cdx.ComponentTypeLibrary, Name: "std", Version: standard, PackageURL: "pkg:golang/std@" + standard}}
	refs := []string{"std"}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		parts = append(parts, cdx.Component{
			BOMRef: d.Path, Type: cdx.ComponentTypeLibrary, Name: d.Path, Version: d.Version,
			PackageURL: "pkg:golang/" + d.Path + "@" + d.Version,
			Properties: &[]cdx.Property{{Name: "dragoman:go.sum", Value: d.Sum}},
		})
		refs = append(refs, d.Path)
	}
	bom := cdx.NewBOM()
	// The same program must have the same bill of materials, so the serial number is derived from
	// the program.
	bom.SerialNumber = uuidOf(sum)
	bom.Metadata = &cdx.Metadata{Timestamp: r.date.Format(time.RFC3339), Component: &self}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	return r.write(r.archiveName(p)+".cdx.json", func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

// uuidOf returns a UUID of version 8 (RFC 9562) that is derived from a hash.
func uuidOf(sum [sha256.Size]byte) string {
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
