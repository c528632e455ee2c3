package jsonrpc

import (
	"bytes"
	"cmp"
)

// Cut says which items of a list Scan has left out of a message; see Limits.Lists.
type Cut struct {
	Key   string   // the member of the result that contains the list
	Names []string // the member name of the first items that were left out; "" for an item without a name
	Count int      // the number of items that were left out
	Why   string   // what is wrong with the first one, as a clause: "it is nested deeper than 125 levels"
	Err   *Error   // the error with which Scan would have refused the message
}

// maxCutNames and maxCutName bound the number of names in a Cut, and the length of a name in bytes.
const (
	maxCutNames = 100
	maxCutName  = 128
)

// listDepth is the number of containers around an item: the message, its result and the list.
const listDepth = 3

// without returns a copy of b that lacks the items which Scan cannot accept, in the first list that
// has such items. All other bytes are the same, except for white space after these items. b is a
// message that Scan has refused with why. It need not be valid JSON; the caller scans the copy. If
// there are no such items, without returns nil.
//
// It reads b a constant number of times, and needs as much memory as b, however deep b is nested:
// the functions of find.go count brackets, and the check of an item stops at the limit. So nobody
// has looked at the rest of an item that is left out.
func without(b []byte, lim *Limits, why *Error) ([]byte, *Cut) {
	depth := cmp.Or(max(lim.Depth, 0), defaultDepth)
	if lim.Lists == nil || why.Code != CodeInvalidRequest || depth <= listDepth || len(b) > cmp.Or(max(lim.Bytes, 0), defaultBytes) {
		return nil, nil
	}
	of := Limits{Bytes: lim.Bytes, Depth: depth - listDepth, Tokens: lim.Tokens}
	for m := range Members(b, Find(b, Whole(b), "result")) {
		key, ok := insideOf(b, m.Key)
		if !ok || KindOf(b, m.Value) != '[' || !lim.Lists(key) {
			continue
		}
		var cut *Cut // nil before the first item is left out, as is out, because a message may have many lists
		var out []byte
		end, kept := m.Value.Start+1, false
		for at := range Elements(b, m.Value) {
			wrong, broken := fault(at.Of(b), &of)
			switch {
			case broken:
				return nil, nil
			case wrong != "":
				if cut == nil {
					cut = &Cut{Key: string(key), Err: why}
					out = append(make([]byte, 0, len(b)), b[:end]...)
				}
				cut.add(b, at, wrong)
				continue
			case cut == nil:
				end = at.End
			case kept:
				out = append(append(out, ','), at.Of(b)...)
			default:
				out = append(out, at.Of(b)...)
			}
			kept = true
		}
		if cut != nil {
			return bytes.Clone(append(out, b[m.Value.End-1:]...)), cut // a copy, to free the memory of what is left out
		}
	}
	return nil, nil
}

// fault returns what is wrong with an item that is JSON, as a clause, or "" if nothing is wrong.
// broken says that the item is not JSON.
func fault(item []byte, lim *Limits) (wrong string, broken bool) {
	s := scannerOf(item, lim)
	defer s.release()
	i := s.value(0)
	if i >= 0 {
		i = s.finish(i)
	}
	switch {
	case i < 0 && s.err.limit == "":
		return "", true
	case i < 0:
		return s.err.limit, false
	case s.duplicate >= 0:
		return "one of its objects has two members with the same name", false
	}
	return "", false
}

func (c *Cut) add(b []byte, item Span, why string) {
	if c.Count++; c.Count == 1 {
		c.Why = why
	}
	if len(c.Names) < maxCutNames {
		name, _ := Text(b, Find(b, item, "name"))
		c.Names = append(c.Names, name[:min(len(name), maxCutName)])
	}
}
