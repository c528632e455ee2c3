package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Directions reports each import that the layers do not allow, and each package that is in no
// layer. A package may import only packages in lower layers.
func Directions(t *Tree) (breaches []string) {
	for _, f := range t.product() {
		if isRig(f.Dir) {
			continue
		}
		if !hasRoom(f.Dir) {
			breaches = append(breaches, fmt.Sprintf("%s: the folder %s has no place in layers (archtest/rooms.go): decide what it may import and who may import it", f.Path, f.Dir))
			continue
		}
		for _, path := range f.Imports() {
			to, ours := strings.CutPrefix(path, Module+"/")
			if !ours {
				continue
			}
			if why := refuse(f.Dir, to); why != "" {
				breaches = append(breaches, fmt.Sprintf("%s: %s must not import %s: %s", f.Path, f.Dir, to, why))
			}
		}
	}
	return breaches
}

func isRig(dir string) bool {
	return slices.ContainsFunc(rigs, func(r string) bool { return within(dir, r) })
}

func hasRoom(dir string) bool {
	_, _, ok := place(layers, dir)
	return ok
}

// refuse returns the reason why the package from must not import the package to. It returns "" if
// the import is allowed.
func refuse(from, to string) string {
	if isRig(to) {
		return "the imported package is only for tests"
	}
	if why := compare(layers, from, to); why != "" {
		return why
	}
	room, _, _ := place(layers, from)
	if within(to, room) && inner[room] != nil {
		return compare(inner[room], from, to)
	}
	return ""
}

// compare returns the reason why an import from one folder to another goes in the wrong direction.
// It returns "" if the import is allowed.
func compare(order [][]string, from, to string) string {
	fromRoom, fromLayer, _ := place(order, from)
	toRoom, toLayer, ok := place(order, to)
	switch {
	case !ok:
		return "it has no place in layers (archtest/rooms.go)"
	case fromRoom == toRoom:
		return ""
	case toLayer == fromLayer:
		return "they are in the same layer; declare an interface in the consumer and let daemon connect them"
	case toLayer > fromLayer:
		return fmt.Sprintf("it is in a higher layer (layer %d imports layer %d); imports go down only", fromLayer, toLayer)
	}
	return ""
}

// place returns the most specific package in order that contains dir, and the index of the layer of
// this package. ok is false if no package in order contains dir.
func place(order [][]string, dir string) (room string, layer int, ok bool) {
	for i, rooms := range order {
		for _, r := range rooms {
			if within(dir, r) && len(r) > len(room) {
				room, layer, ok = r, i, true
			}
		}
	}
	return room, layer, ok
}

// Guests reports each import of a module in guests by a package that may not import the module.
// guests contains the folders that may import each module.
func Guests(t *Tree, guests map[string][]string) (breaches []string) {
	for _, f := range t.product() {
		for _, path := range f.Imports() {
			for module, hosts := range guests {
				if within(path, module) && !slices.ContainsFunc(hosts, func(h string) bool { return within(f.Dir, h) }) {
					breaches = append(breaches, fmt.Sprintf("%s: %s must not import %s: only %s may", f.Path, f.Dir, path, strings.Join(hosts, " and ")))
				}
			}
		}
	}
	return breaches
}

// WireJSON reports each import of encoding/json in the packages that wire lists.
func WireJSON(t *Tree) (breaches []string) {
	for _, f := range t.product() {
		onWire := slices.ContainsFunc(wire, func(r string) bool { return within(f.Dir, r) })
		if !onWire {
			continue
		}
		for _, path := range f.Imports() {
			if path == "encoding/json" || strings.HasPrefix(path, "encoding/json/") {
				breaches = append(breaches, fmt.Sprintf("%s: %s must not import %s: it changes messages that it decodes; use internal/base/jsonrpc", f.Path, f.Dir, path))
			}
		}
	}
	return breaches
}
